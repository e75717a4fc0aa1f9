"""`-p` shows every key, its value, where that comes from, and which keys have no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq.config import BrokerConfig, Loaded, format_config, load_broker_config, load_namesrv_config
from skyrocketmq.config.fields import keys_of


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded[BrokerConfig]:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=broker-a\nbrokrName=x\nsendMessageThreadPoolNums=9")
    environ = {"SKYROCKETMQ_LISTEN_PORT": "20911", "TLS_SERVER_KEY_PASSWORD": "hunter2"}
    return load_broker_config(conf, environ, {"regionId": "north"})


def line_of(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [key])


def test_each_value_is_shown_with_its_source(loaded: Loaded[BrokerConfig]) -> None:
    text = format_config(loaded)
    assert line_of(text, "brokerName").endswith("= broker-a  (file)")
    assert line_of(text, "listenPort").endswith("= 20911  (environment)")
    assert line_of(text, "regionId").endswith("= north  (--set)")
    assert line_of(text, "maxMessageSize").endswith("= 4194304  (default)")


def test_every_key_is_shown(loaded: Loaded[BrokerConfig]) -> None:
    text = format_config(loaded)
    for key in keys_of(BrokerConfig):
        assert line_of(text, key.name)


def test_keys_without_effect_stand_at_the_end_with_the_reason(loaded: Loaded[BrokerConfig]) -> None:
    _, unused = format_config(loaded).split("\nunused here\n")
    assert line_of(unused, "sendMessageThreadPoolNums").endswith(
        "= 9  (file; one event loop serves all requests: no pool to size)"
    )
    assert "brokerName" not in unused
    assert unused.endswith("unknown keys of the file, without effect\n  brokrName = x")


def test_passwords_are_not_shown(loaded: Loaded[BrokerConfig]) -> None:
    text = format_config(loaded)
    assert "hunter2" not in text
    assert line_of(text, "tls.server.keyPassword").endswith("= ***  (environment)")


def test_passwords_under_keys_that_nobody_knows_are_not_shown_either(tmp_path: Path) -> None:
    path = tmp_path / "namesrv.conf"
    path.write_text("brokerSecretKey=hunter2\ntls.server.keypassword=hunter3\n")
    text = format_config(load_namesrv_config(path, {}))
    assert "hunter" not in text
    assert line_of(text, "brokerSecretKey").endswith("= ***")


def test_a_name_server_shows_its_own_keys_only() -> None:
    text = format_config(load_namesrv_config(None, {}))
    assert line_of(text, "listenPort").endswith("= 9876  (default)")
    assert "brokerName" not in text
