"""What is kept together when the tests are spread over several workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spread import ALSO_SPARK, SECONDS, unit_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/wire/test_frames.py::TestDecoder::test_a_frame[ours-1]", "tests/wire/test_frames.py"),
        ("tests/spark/test_sink.py::test_rows_are_sent", "tests/spark"),
        ("tests/spark/jobs/test_copy.py::test_it_copies[1]", "tests/spark/jobs"),
        ("tests/interop/test_spark.py::test_apaches_broker_is_read", "tests/spark/jobs"),
        ("tests/interop/client/test_sending.py::test_it[apache-json headers]", "tests/interop/client on apache"),
        ("tests/interop/client/test_sending.py::test_it[lz4-ours]", "tests/interop/client on ours"),
        (
            "tests/interop/java_client/test_life.py::test_it[ours, one broker, binary headers]",
            "tests/interop/java_client on ours, one broker, binary headers",
        ),
        ("tests/interop/client/test_sending.py::test_without_a_cluster", "tests/interop/client/test_sending.py"),
        ("tests/interop/test_acl.py::test_accounts[ours]", "tests/interop/test_acl.py"),
    ],
)
def test_tests_that_share_something_are_one_unit(nodeid: str, unit: str) -> None:
    assert unit_of(nodeid) == unit


def test_what_is_known_to_take_long_exists() -> None:
    for unit in SECONDS:
        assert (ROOT / unit.partition(" on ")[0]).exists(), unit
    assert (ROOT / ALSO_SPARK).exists()
