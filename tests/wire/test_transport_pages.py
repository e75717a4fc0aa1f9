"""The pages on frames, JSON and requests say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyrocketmq.wire.body_types import MESSAGE_BODIES, PROPERTIES_BODIES, REQUEST_BODIES, RESPONSE_BODIES
from skyrocketmq.wire.codes import UNHANDLED_REQUESTS, Language, RequestCode, ResponseCode
from skyrocketmq.wire.frames import EXT_FIELDS_MAX, FRAME_BYTES_MAX, Encoding, Frame, FrameDecoder, encode_frame
from skyrocketmq.wire.headers import REQUEST_HEADERS, RESPONSE_HEADERS, NoFields
from skyrocketmq.wire.json_dialect import DEPTH_MAX, VALUES_MAX, parse, write_pretty
from skyrocketmq.wire.registration import INFLATED_BYTES_MAX

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


REQUEST_ROWS = {int(row[0]): row for row in rows(REQUESTS_PAGE) if len(row) == 7 and row[0].isdigit()}


@pytest.mark.parametrize("code", sorted(set(RequestCode) - UNHANDLED_REQUESTS))
def test_every_code_stands_on_the_page_with_its_header_and_body(code: RequestCode) -> None:
    _, name, meaning, header, body, answer_header, answer_body = REQUEST_ROWS[code]
    assert name == code.name
    assert meaning
    for cell, header_class in ((header, REQUEST_HEADERS[code]), (answer_header, RESPONSE_HEADERS[code])):
        assert cell == ("" if header_class is NoFields else header_class.__name__)
    for cell, classes in ((body, REQUEST_BODIES), (answer_body, RESPONSE_BODIES)):
        if code in classes:
            assert cell == classes[code].__name__
        elif code in MESSAGE_BODIES:
            assert cell in ("", "message body", "batch", "record", "records")
        elif code in PROPERTIES_BODIES:
            assert cell in ("", "lines")
        else:
            assert cell in ("", "RegisterBrokerBody")


def test_codes_without_a_handler_and_answers_are_listed() -> None:
    unhandled = rows(section(REQUESTS_PAGE, "Numbers without a handler"))[2:]
    assert unhandled == [[str(code.value), code.name] for code in sorted(UNHANDLED_REQUESTS)]
    answers = rows(section(REQUESTS_PAGE, "Answers"))[2:]
    assert answers == [[str(code.value), code.name] for code in ResponseCode]
    assert set(REQUEST_ROWS) | UNHANDLED_REQUESTS == set(RequestCode)


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
