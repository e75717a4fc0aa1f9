"""A blocking producer in a web application under gunicorn, started before the workers are forked."""

from __future__ import annotations

import re
import signal
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from skyrocketmq.testing import BlockingCluster
from tests.cli.processes import BIN, WAIT_S, running

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform == "win32", reason="gunicorn forks, which this system cannot"),
]

APPLICATION = """
import os
from skyrocketmq import Message
from skyrocketmq.blocking import Producer

producer = Producer("web", namesrv={namesrv!r})
producer.start()
producer.send(Message({topic!r}, b"master"))

def application(environ, start_response):
    producer.send(Message({topic!r}, b"%d" % os.getpid()))
    producer.submit(Message({topic!r}, b"%d" % os.getpid()))
    producer.flush()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"%d" % os.getpid()]
"""


def test_workers_send_with_a_producer_that_was_started_before_they_were_forked(
    rocketmq: BlockingCluster, rocketmq_topic: str, tmp_path: Path
) -> None:
    text = APPLICATION.format(namesrv=rocketmq.namesrv, topic=rocketmq_topic)
    (tmp_path / "web.py").write_text(text, encoding="utf-8")
    options = ["--preload", "--workers", "2", "--bind", "127.0.0.1:0", "web:application"]
    with running([str(BIN / "gunicorn"), *options], home=tmp_path) as server:
        server.wait_for_error("Listening at")
        found = re.search(r"Listening at: (http://\S+)", server.errors)
        assert found is not None
        answers: list[bytes] = []
        deadline = time.monotonic() + WAIT_S
        while len(set(answers)) < 2 or len(answers) < 10:
            assert time.monotonic() < deadline, f"one worker answers: {answers}"
            with urllib.request.urlopen(found[1], timeout=WAIT_S) as response:
                answers.append(response.read())
        server.signal(signal.SIGTERM)
        server.wait()
        assert "Traceback" not in server.errors
    bodies = [message.body for message in rocketmq.messages(rocketmq_topic)]
    assert sorted(bodies) == sorted([b"master", *answers, *answers])
