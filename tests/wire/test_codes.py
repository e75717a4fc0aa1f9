"""Codes and versions: the numbers of the protocol."""

from __future__ import annotations

import pytest

from skyrocketmq.wire.codes import UNHANDLED_REQUESTS, Language, RequestCode, ResponseCode
from skyrocketmq.wire.versions import VERSION_4_9_7, version_name, version_number


def test_the_number_of_codes_is_that_of_the_protocol() -> None:
    assert len(RequestCode) - len(UNHANDLED_REQUESTS) == 84 + 4  # of release 5
    assert len(UNHANDLED_REQUESTS) == 12
    assert len(ResponseCode) == 37
    assert [language.value for language in Language] == list(range(13))


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "V3_0_0_SNAPSHOT"),
        (28, "V3_0_7_SNAPSHOT"),
        (37, "V3_0_11"),
        (62, "V3_1_8_SNAPSHOT"),
        (79, "V3_2_6"),
        (121, "V3_4_9"),
        (137, "V3_5_8"),
        (213, "V4_0_0"),
        (232, "V4_1_0_SNAPSHOT"),
        (253, "V4_2_0"),
        (293, "V4_4_0"),
        (393, "V4_9_0"),
        (401, "V4_9_4"),
        (VERSION_4_9_7, "V4_9_7"),
        (413, "V5_0_0"),
        (433, "V5_1_0"),
        (612, "HIGHER_VERSION"),
    ],
)
def test_release_numbers(number: int, name: str) -> None:
    assert version_name(number) == name
    assert version_number(name) == number


def test_numbers_outside_the_list_have_its_last_and_first_name() -> None:
    assert version_name(10_000) == "HIGHER_VERSION"
    assert version_name(-1) == "V3_0_0_SNAPSHOT"
    assert version_number("V9_9_9") is None
