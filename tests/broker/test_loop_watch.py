"""A broker's and a name server's work is under the loop's watch: with a limit of nothing, everything is too long."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from skyrocketmq import loop_watch
from skyrocketmq.config import NamesrvConfig, ServerConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import Peer, open_house
from tests.broker.requests import TOPIC, send_frame
from tests.net.support import until


@pytest.fixture
def stalls(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(loop_watch, "LOG_EVERY_S", -1.0)  # every one is logged
    caplog.set_level(logging.WARNING, logger="skyrocketmq.loop_watch")
    return caplog


def named(caplog: pytest.LogCaptureFixture, field: str) -> set[str]:
    lines = [record for record in caplog.records if record.message == "loop stalled"]
    return {str(getattr(record, field)) for record in lines if hasattr(record, field)}


async def test_a_broker_watches_requests_of_both_ports_and_all_that_it_does_by_itself(
    stalls: pytest.LogCaptureFixture,
) -> None:
    async with open_house(offset_flush_interval_ms=10) as house:
        watch = house.broker.parts.loop_watch
        watch.limit_s = 0.0
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(send_frame(TOPIC, body=b"hello"))
        fast = await house.connect(is_fast=True)
        await fast.ok(Frame(RequestCode.GET_ALL_TOPIC_CONFIG, 7))
        await until(lambda: {"RuntimeFigures.sample", "store-flush-log", "save topics.json"} <= named(stalls, "work"))
        assert {"SEND_MESSAGE_V2", "GET_ALL_TOPIC_CONFIG", "UPDATE_AND_CREATE_TOPIC"} <= named(stalls, "request")
        assert TOPIC in named(stalls, "topic")
        watch.limit_s = 3600.0
        counted = watch.stall_count
        answer = await peer.ok(Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 8))
        table = decode_body(KvTable, answer.body).table
        assert table["loopStallCount"] == str(counted)
        assert float(table["loopStallTimeMaxMillis"]) >= float(table["loopStallCpuMaxMillis"])


async def test_a_name_server_watches_its_requests(stalls: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    config = NamesrvConfig(
        kv_config_path=tmp_path / "kv.json",
        config_store_path=tmp_path / "c",
        server=ServerConfig(loop_stall_ms=123),
    )
    async with NameServer.open(config, host="127.0.0.1", port=0) as server:
        assert server.loop_watch.limit_s == 0.123
        server.loop_watch.limit_s = 0.0
        peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
        await peer.ask(Frame(RequestCode.GET_BROKER_CLUSTER_INFO, 1))
        await until(lambda: "GET_BROKER_CLUSTER_INFO" in named(stalls, "request"))
        await peer.close()
