"""The page on compatibility says what is so: its commands are tried, its requests are answered by who it says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from skyrocketmq.config import NamesrvConfig, ServerConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.wire.codes import UNHANDLED_REQUESTS, RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.broker.house import open_house

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| `(\w+)` \| yes.* \| `(\S+)` \|$", PAGE, re.MULTILINE)
CODES = re.findall(r"^\| (\d+) \| (\w+) \| ([a-z ,]+) \| (.+) \|$", PAGE, re.MULTILINE)
SHOWN = [(int(code), name, by.strip("`")) for code, name, _, by in CODES if by != "*to come*"]
WAIT_S = 30.0
COMMIT = {"commitOrRollback": "8"}  # without it, the end of a transaction has no answer


def codes_of(who: str) -> list[int]:
    """The codes that a server answers by now."""
    return [int(code) for code, _, answered_by, by in CODES if answered_by.startswith(who) and by != "*to come*"]


def test_all_commands_stand_on_the_page_once() -> None:
    names = [name for name, _ in COMMANDS]
    assert len(names) == len(set(names)) == 57


@pytest.mark.parametrize(("command", "file"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_the_test_of_a_command_runs_it(command: str, file: str) -> None:
    text = (TESTS / file).read_text(encoding="utf-8")
    assert f'"{command}"' in text or (command.startswith("export") and "export{what}" in text)


def test_all_codes_stand_on_the_page_once() -> None:
    expected = [(str(code.value), code.name) for code in sorted(set(RequestCode) - UNHANDLED_REQUESTS)]
    assert [(code, name) for code, name, _, _ in CODES] == expected


@pytest.mark.parametrize(("code", "name", "file"), SHOWN, ids=[name for _, name, _ in SHOWN])
def test_the_test_of_a_request_names_it(code: int, name: str, file: str) -> None:
    text = (TESTS / file).read_text(encoding="utf-8")
    assert re.search(rf"\b({name}|{code})\b", text) or "as_version_1" in text or "send_frame" in text


async def test_a_broker_answers_the_requests_that_are_its_own_and_no_others() -> None:
    async with open_house() as house:
        peer = await house.connect()
        not_supported = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        for code in codes_of("broker"):
            answer = await peer.ask(Frame(code, 1, ext=dict(COMMIT)))
            assert answer.code != not_supported, RequestCode(code).name
        for code in [*codes_of("name server"), *sorted(UNHANDLED_REQUESTS), 9999]:
            assert await peer.refused(Frame(code, 1, ext={})) == (not_supported, f"request type {code} not supported")


async def test_a_name_server_answers_the_requests_that_are_its_own_and_no_others(tmp_path: Path) -> None:
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", server=ServerConfig(listen_port=0))
    async with NameServer.open(config) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
        decoder = FrameDecoder()
        own = codes_of("name server")
        foreign = [code for code in RequestCode if code not in own]
        for opaque, code in enumerate([*foreign, *own]):
            writer.write(encode_frame(Frame(int(code), opaque, ext={})))
        answered: set[int] = set()
        async with asyncio.timeout(WAIT_S):
            while len(answered) < len(own):
                answered |= {frame.opaque - len(foreign) for frame in decoder.feed(await reader.read(1 << 16))}
        writer.close()
        await writer.wait_closed()
        assert answered == set(range(len(own)))
