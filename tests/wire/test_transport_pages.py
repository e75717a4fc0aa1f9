"""The pages on frames, JSON and requests say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyrocketmq.cli.requests_page import page_with_tables
from skyrocketmq.wire.codes import UNHANDLED_REQUESTS, Language, RequestCode, ResponseCode
from skyrocketmq.wire.frames import EXT_FIELDS_MAX, FRAME_BYTES_MAX, Encoding, Frame, FrameDecoder, encode_frame
from skyrocketmq.wire.headers_codec import NoFields
from skyrocketmq.wire.json_dialect import DEPTH_MAX, VALUES_MAX, parse, write_pretty
from skyrocketmq.wire.own_requests import OwnRequestCode
from skyrocketmq.wire.registration import INFLATED_BYTES_MAX
from tests.declared import ALL_REQUESTS, CLIENT_REQUESTS

PAGES = Path(__file__).parents[2] / "docs" / "formats"
FRAME_PAGE = (PAGES / "frame.md").read_text(encoding="utf-8")
DIALECT_PAGE = (PAGES / "json-dialect.md").read_text(encoding="utf-8")
REQUESTS_PAGE = (PAGES / "requests.md").read_text(encoding="utf-8")


def rows(page: str) -> list[list[str]]:
    """The rows of all tables of a page, without the marks of code."""
    lines = re.findall(r"^\|(.*)\|$", page, re.MULTILINE)
    return [[cell.strip().strip("`") for cell in line.split("|")] for line in lines]


def section(page: str, heading: str) -> str:
    return page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_the_tables_of_the_servers_are_what_their_handlers_declare() -> None:
    written_anew = "python -m skyrocketmq.cli.requests_page docs/formats/requests.md"
    assert page_with_tables(REQUESTS_PAGE) == REQUESTS_PAGE, f"write them anew with: {written_anew}"


def test_what_a_broker_asks_of_a_client_stands_on_the_page() -> None:
    table = rows(section(REQUESTS_PAGE, "What a broker asks of a client"))[2:]
    assert [int(row[0]) for row in table] == list(CLIENT_REQUESTS)
    for code, name, meaning, *cells in table:
        declared = CLIENT_REQUESTS[int(code)]
        carried = (declared.header, declared.body, declared.answer, declared.answer_body)
        assert name == declared.code.name
        assert meaning
        assert cells == ["" if each is NoFields else getattr(each, "__name__", each) for each in carried]


def test_codes_without_a_handler_and_answers_are_listed() -> None:
    unhandled = rows(section(REQUESTS_PAGE, "Numbers without a handler"))[2:]
    assert unhandled == [[str(code.value), code.name] for code in sorted(UNHANDLED_REQUESTS)]
    answers = rows(section(REQUESTS_PAGE, "Answers"))[2:]
    assert answers == [[str(code.value), code.name] for code in ResponseCode]
    assert set(ALL_REQUESTS) | UNHANDLED_REQUESTS == {*RequestCode, *OwnRequestCode}


def test_the_frame_of_the_page_is_what_the_code_writes() -> None:
    table = rows(section(FRAME_PAGE, "Worked example"))[2:]
    value = {row[1]: row[2] for row in table}
    data = bytes.fromhex("".join(row[0] for row in table))
    frame = Frame(
        int(value["code"]),
        int(value["opaque"]),
        int(value["flag"]),
        {value["key"]: value["value"]},
        language=int(value["language"]),
        version=int(value["version"]),
        encoding=Encoding(int(value["encoding"])),
    )
    assert encode_frame(frame) == data
    assert FrameDecoder().feed(data) == [frame]
    assert int(value["length"]) == len(data) - 4
    assert int(value["header length"]) == len(data) - 8


def test_the_json_frame_of_the_page_is_what_the_code_writes() -> None:
    text = section(FRAME_PAGE, "Worked example")
    start = "".join(re.findall(r"length `([0-9a-f]{8})`", text))
    header = re.search(r"```json\n(.*)\n```", text)
    assert header is not None
    frame = Frame(105, 7, ext={"topic": "T"}, language=Language.JAVA)
    assert encode_frame(frame) == bytes.fromhex(start) + header[1].encode()


def test_the_limits_on_the_pages_are_those_of_the_code() -> None:
    assert f"at most {FRAME_BYTES_MAX - 4};" in FRAME_PAGE
    assert f"to {EXT_FIELDS_MAX} ext fields" in FRAME_PAGE
    assert f"more than {DEPTH_MAX} levels" in DIALECT_PAGE
    assert VALUES_MAX == 1_000_000
    assert "more than a million values" in DIALECT_PAGE
    assert f"at most {INFLATED_BYTES_MAX >> 20} MiB" in REQUESTS_PAGE


def test_the_languages_of_the_page_are_those_of_the_code() -> None:
    assert rows(section(FRAME_PAGE, "Languages"))[2:] == [[str(language.value), language.name] for language in Language]


def test_the_file_of_the_page_is_what_the_code_writes() -> None:
    example = re.search(r"```\n(\{.*?\n\})\n```", section(DIALECT_PAGE, "Files"), re.DOTALL)
    assert example is not None
    assert write_pretty({"offsetTable": {"TopicTest@g1": {0: 5, 1: 7}}}).decode() == example[1]
    assert parse(example[1].encode()) == {"offsetTable": {"TopicTest@g1": {"0": 5, "1": 7}}}


@pytest.mark.parametrize("page", [FRAME_PAGE, DIALECT_PAGE, REQUESTS_PAGE], ids=["frame", "json-dialect", "requests"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (PAGES / target).exists(), target
