"""The fixtures for pytest, used by a pytest of their own; and the page that tells of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs_code import ROOT, python_blocks

pytest_plugins = ["pytester"]

INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

HEAVY = ("skyrocketmq.broker", "skyrocketmq.client", "skyrocketmq.testing", "msgspec", "asyncio")


def test_the_page_about_testing_does_what_it_says(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI)
    blocks = python_blocks(ROOT / "docs" / "testing.md")
    for number, block in enumerate(blocks):
        pytester.makepyfile(**{f"test_block_{number}": block})
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=sum(block.count("def test_") for block in blocks))


def test_tests_share_a_cluster_and_have_topics_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makefile(
        ".ini",
        pytest=INI
        + """
rocketmq_brokers = 2
rocketmq_queues = 3
rocketmq_settings =
    regionId=south
    autoCreateTopicEnable=false
""",
    )
    pytester.makepyfile(
        """
        from skyrocketmq.blocking import Producer

        seen = []

        def test_one(rocketmq, rocketmq_topic):
            with Producer("p", namesrv=rocketmq.namesrv) as producer:
                assert len(producer.queues(rocketmq_topic)) == 6
            seen.append((rocketmq.namesrv, rocketmq_topic))

        def test_two(rocketmq, rocketmq_topic):
            seen.append((rocketmq.namesrv, rocketmq_topic))

        async def test_three(rocketmq_async, rocketmq_topic):
            seen.append((rocketmq_async.namesrv, rocketmq_topic))
            config = rocketmq_async.brokers["broker-a"].config.current
            assert (config.region_id, config.auto_create_topic) == ("south", False)
            assert len({address for address, _ in seen}) == 1
            assert len({topic for _, topic in seen}) == 3
            assert rocketmq_topic.startswith("test-three-")
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly").assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("rocketmq_brokers = none", "*rocketmq_brokers = 'none' is not a number above 0*"),
        ("rocketmq_settings = regionId", "*the line 'regionId' is not key=value*"),
        ("rocketmq_settings = regionIdd=x", "*regionId*"),
    ],
)
def test_a_wrong_option_is_named(pytester: pytest.Pytester, option: str, complaint: str) -> None:
    pytester.makefile(".ini", pytest=f"{INI}\n{option}\n")
    pytester.makepyfile("def test_one(rocketmq): pass")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([complaint])


def test_whoever_does_not_use_the_fixtures_loads_nothing() -> None:
    """The plug-in is loaded wherever the package is installed."""
    code = f"import sys, skyrocketmq.pytest_plugin; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
