"""Acknowledged is stored, stored is consumed: which losses are found, and which are no loss at all."""

from __future__ import annotations

import pytest

from skyrocketmq.testing.simulation.history import Ending, QueueEnds
from tests.simulation.story import DEAD_Q, RETRY_Q, Q, Story

LOST = {"acknowledged is stored"}


def test_a_run_in_which_all_is_well() -> None:
    story = Story().begin_member().send("m1", 0).send("m2", 1).consume("m2", 1).consume("m1", 0)
    assert story.store("m1", 0).store("m2", 1).end().found() == set()


def test_an_acknowledged_message_that_is_not_there() -> None:
    assert Story().send("m1", 0).end().found() == LOST


def test_nobody_was_told_that_a_message_is_kept() -> None:
    story = Story().begin_send("unanswered").begin_send("oneway", kind="one-way")
    assert story.end().found() == set()


# The columns of docs/guarantees.md. A minute later is after the last moments; at once is within them.
@pytest.mark.parametrize(
    ("flush", "how", "later_s", "found"),
    [
        ("ASYNC_FLUSH", "killed", 0, LOST),
        ("ASYNC_FLUSH", "stopped", 0, LOST),
        ("ASYNC_FLUSH", "power cut", 0, set()),
        ("ASYNC_FLUSH", "power cut", 60, LOST),
        ("SYNC_FLUSH", "killed", 0, LOST),
        ("SYNC_FLUSH", "power cut", 0, LOST),
    ],
)
def test_what_the_end_of_a_broker_may_take(flush: str, how: Ending, later_s: float, found: set[str]) -> None:
    story = Story(flush=flush).send("m1", 0).wait(later_s).end_broker(how).begin_broker(flush=flush)
    assert story.end().found() == found


@pytest.mark.parametrize(
    ("flush", "status", "waits", "found"),
    [
        ("SYNC_FLUSH", "SEND_OK", True, LOST),
        ("SYNC_FLUSH", "SLAVE_NOT_AVAILABLE", True, LOST),
        ("SYNC_FLUSH", "FLUSH_SLAVE_TIMEOUT", True, LOST),
        ("SYNC_FLUSH", "FLUSH_DISK_TIMEOUT", True, set()),
        ("SYNC_FLUSH", "SEND_OK", False, set()),
    ],
)
def test_what_an_answer_is_worth_in_a_power_cut(flush: str, status: str, waits: bool, found: set[str]) -> None:
    story = Story(flush=flush).send("m1", 0, status, wait=waits).end_broker("power cut").begin_broker(flush=flush)
    assert story.end().found() == found


@pytest.mark.parametrize(("flush", "found"), [("ASYNC_FLUSH", set()), ("SYNC_FLUSH", LOST)])
def test_what_a_failed_sync_may_take(flush: str, found: set[str]) -> None:
    story = Story(flush=flush).send("m1", 0).fault("failed sync").wait(30).end_broker("killed")
    assert story.begin_broker(flush=flush).end().found() == found


def test_a_slow_disk_makes_the_last_moments_longer() -> None:
    story = Story(flush="ASYNC_FLUSH").fault("slow sync", lasting_s=None).send("m1", 0).wait(20)
    assert story.end_broker("power cut").begin_broker(flush="ASYNC_FLUSH").end().found() == set()


@pytest.mark.parametrize("fault", ["disk full", "partition", "failed write"])
def test_other_faults_take_nothing(fault: str) -> None:
    story = Story(flush="ASYNC_FLUSH").send("m1", 0).fault(fault).end_broker("killed").begin_broker(flush="ASYNC_FLUSH")
    assert story.end().found() == LOST


@pytest.mark.parametrize(
    ("role", "status", "found"),
    [
        ("SYNC_MASTER", "SEND_OK", LOST),
        ("SYNC_MASTER", "FLUSH_SLAVE_TIMEOUT", set()),
        ("ASYNC_MASTER", "SEND_OK", set()),
    ],
)
def test_what_a_promoted_slave_has_to_have(role: str, status: str, found: set[str]) -> None:
    story = Story(role=role, slave=True).send("m1", 0, status).end_broker("lost").end_broker("stopped", "s")
    assert story.begin_broker("s").end().found() == found


def test_a_slave_that_lost_power_too_promises_nothing() -> None:
    story = Story(role="SYNC_MASTER", slave=True).send("m1", 0).end_broker("lost").end_broker("power cut", "s")
    assert story.begin_broker("s").end().found() == set()


def test_a_delayed_message_is_missed_when_its_time_is_over() -> None:
    delayed = Story().begin_send("m1", kind="delayed", delay_s=30).answer("m1", 4)
    assert delayed.wait(20).end().found() == set()
    delayed = Story().begin_send("m1", kind="delayed", delay_s=30).answer("m1", 4)
    assert delayed.wait(60).end().found() == LOST


def test_a_confirmed_commit_is_missed_and_an_open_transaction_is_not() -> None:
    half = Story().begin_send("m1", kind="transactional").answer("m1", -1)
    assert half.end().found() == set()
    half = Story().begin_send("m1", kind="transactional").answer("m1", -1).decide("m1", "commit")
    assert half.end().found() == LOST
    half = Story().begin_send("m1", kind="transactional").answer("m1", -1).decide("m1", "commit", heard=False)
    assert half.end().found() == set()


def test_a_group_that_never_got_a_stored_message() -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0)
    assert story.end().found() == {"stored is consumed"}


def test_also_one_that_nobody_acknowledged() -> None:
    story = Story().begin_member().begin_send("m1").store("m1", 0)
    assert story.end().found() == {"stored is consumed"}


def test_a_message_that_failed_is_not_consumed_unless_it_is_a_dead_letter() -> None:
    failing = Story().begin_member(attempts_max=0).send("m1", 0).consume("m1", 0, "retry").store("m1", 0)
    assert failing.end().found() == {"stored is consumed"}
    dead = Story().begin_member(attempts_max=0).send("m1", 0).consume("m1", 0, "retry").store("m1", 0)
    assert dead.store("m1", 0, queue=DEAD_Q).end().found() == set()


def test_each_group_counts_for_itself_and_tags_choose() -> None:
    story = Story().begin_member().begin_member("c2", "other", tags=("B",)).begin_send("m1", tag="A").answer("m1", 0)
    assert story.consume("m1", 0).store("m1", 0).end().found() == set()
    story = Story().begin_member().begin_member("c2", "other", tags=("A",)).begin_send("m1", tag="A").answer("m1", 0)
    assert story.consume("m1", 0).store("m1", 0).end().found() == {"stored is consumed"}


def test_numbers_that_a_promoted_slave_gave_again_may_be_missed_and_no_others() -> None:
    def story(number: int) -> Story:
        story = Story(slave=True).begin_member().send("m1", 0).send("lost", 65).consume("m1", 0).consume("lost", 65)
        story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").note(QueueEnds(Q, 0, 1, False, node="s"))
        return story.send("again", number).store("m1", 0, node="s").store("again", number, node="s").end()

    assert story(65).found() == set()
    assert story(64).found() == {"stored is consumed"}  # within what it has to skip
    story_of_copied = Story(slave=True).begin_member().send("m1", 0).send("lost", 1).consume("lost", 1)
    story_of_copied.end_broker("lost").end_broker("stopped", "s").begin_broker("s")
    story_of_copied.note(QueueEnds(Q, 0, 1, False, node="s")).store("m1", 0, node="s")
    assert story_of_copied.end().found() == {"stored is consumed"}


def test_broadcast_members_each_see_all_over_their_lives() -> None:
    def story() -> Story:
        return Story().begin_member("c1", kind="broadcast", session="one").send("m1", 0).send("m2", 1)

    whole = story().consume("m1", 0, kind="broadcast").end_member("killed")
    whole.begin_member("c2", kind="broadcast", session="one").consume("m2", 1, node="c2", kind="broadcast")
    assert whole.store("m1", 0).store("m2", 1).end().found() == set()
    skipping = story().consume("m2", 1, kind="broadcast")
    assert skipping.store("m1", 0).store("m2", 1).end().found() == {"broadcast sees all"}
    gone = story().end_member("killed")
    assert gone.store("m1", 0).store("m2", 1).end().found() == set()


def test_a_run_that_does_not_come_to_rest() -> None:
    assert Story().send("m1", 0).end(settled=False).found() == {"settles"}
    assert Story().found() == {"settles"}


def test_between_two_lives_the_weaker_promise_counts() -> None:
    """The answer came after a start: nobody knows which life stored the message."""
    story = Story(flush="ASYNC_FLUSH").begin_send("m1").end_broker("power cut").begin_broker(flush="SYNC_FLUSH")
    assert story.answer("m1", 0).end_broker("power cut").begin_broker().end().found() == set()
    story = (
        Story(role="ASYNC_MASTER", slave=True).begin_send("m1").end_broker("killed").begin_broker(role="SYNC_MASTER")
    )
    story.answer("m1", 0).end_broker("lost").end_broker("stopped", "s").begin_broker("s")
    assert story.end().found() == set()


def test_an_older_cut_takes_nothing_from_a_newer_message() -> None:
    story = Story(flush="ASYNC_FLUSH").end_broker("power cut").begin_broker(flush="ASYNC_FLUSH").send("m1", 0)
    assert story.wait(60).end().found() == LOST


def test_a_disk_that_was_slow_long_ago_is_no_excuse() -> None:
    story = Story(flush="ASYNC_FLUSH").fault("slow sync", lasting_s=5).send("m1", 0).wait(60)
    assert story.end_broker("power cut").begin_broker(flush="ASYNC_FLUSH").end().found() == LOST
    story = (
        Story(flush="ASYNC_FLUSH").fault("slow sync", lasting_s=5).send("m1", 0).wait(20).fault("slow sync", number=1)
    )
    assert story.wait(5).end_broker("power cut").begin_broker(flush="ASYNC_FLUSH").end().found() == LOST


def test_nor_is_the_failed_sync_of_a_life_before() -> None:
    story = Story(flush="ASYNC_FLUSH").fault("failed sync").end_broker("killed").begin_broker(flush="ASYNC_FLUSH")
    story.send("m1", 0).end_broker("killed").begin_broker(flush="ASYNC_FLUSH")
    assert story.end().found() == LOST


def cut_master(*, slave_has: tuple[str, ...], slave_end: str = "") -> Story:
    story = Story(flush="ASYNC_FLUSH", role="SYNC_MASTER", slave=True).send("m0", 0).wait(60).send("m1", 1)
    story.end_broker("power cut").begin_broker(flush="ASYNC_FLUSH", role="SYNC_MASTER").store("m0", 0)
    if slave_end == "power cut":
        story.end_broker("power cut", "s").begin_broker("s", flush="ASYNC_FLUSH", role="SLAVE", broker_id=1)
    for offset, name in enumerate(slave_has):
        story.store(name, offset, node="s")
    return story.end()


def test_what_the_master_lost_is_kept_at_the_slave() -> None:
    assert cut_master(slave_has=("m0", "m1")).found() == set()
    assert cut_master(slave_has=("m0",)).found() == LOST
    assert cut_master(slave_has=()).found() == set()  # nobody looked there
    assert cut_master(slave_has=("m0",), slave_end="power cut").found() == set()


def test_which_of_two_slaves_has_it_nobody_knows() -> None:
    story = Story(role="SYNC_MASTER", slave=True).begin_broker("s2", role="SLAVE", broker_id=2).send("m1", 0)
    assert story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").end().found() == set()


def test_without_the_ends_of_its_queues_nothing_is_known_of_a_promotion() -> None:
    story = Story(slave=True).begin_member().send("lost", 0).consume("lost", 0)
    story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").send("again", 0)
    assert story.store("again", 0, node="s").end().found() == set()


def test_far_beyond_what_was_ever_read_nothing_may_be_missed() -> None:
    story = Story(slave=True).begin_member().send("lost", 3).consume("lost", 3)
    story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").note(QueueEnds(Q, 0, 1, False, node="s"))
    assert story.send("far", 100).store("far", 100, node="s").end().found() == {"stored is consumed"}


def test_what_a_stopped_member_finishes_counts() -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0)
    call = story.show("m1", 0)
    assert story.end_member("stopped").finish(call).end().found() == set()


def test_what_another_group_handled_is_not_what_a_broadcast_member_saw() -> None:
    story = Story().begin_member("c1", "b", "broadcast").begin_member("c1", "g").send("m1", 0).store("m1", 0)
    assert story.consume("m1", 0, node="c1", group="g").end().found() == {"broadcast sees all"}


def test_a_retry_in_the_last_moments_of_asynchronous_flush_may_go_with_the_power() -> None:
    def handed_back(flush: str, wait_s: float) -> set[str]:
        story = Story(flush=flush).begin_member().send("m1", 0)
        story.consume("m1", 0, "retry", delay_s=5).wait(wait_s).end_broker("power cut").begin_broker(flush=flush)
        return story.wait(60).store("m1", 0).end().found()

    assert handed_back("ASYNC_FLUSH", 1) == set()
    assert handed_back("ASYNC_FLUSH", 20) == {"stored is consumed"}
    assert handed_back("SYNC_FLUSH", 1) == {"stored is consumed"}


def test_a_power_cut_after_a_kill_takes_what_the_killed_process_had_not_synced() -> None:
    def cut_after_kill(flush: str, sent_before_s: float) -> set[str]:
        story = Story(flush=flush).send("m1", 0).wait(sent_before_s).end_broker("killed")
        return story.wait(1).fault("power cut").wait(1).begin_broker(flush=flush).wait(60).end().found()

    assert cut_after_kill("ASYNC_FLUSH", 1) == set()
    assert cut_after_kill("ASYNC_FLUSH", 20) == {"acknowledged is stored"}
    assert cut_after_kill("SYNC_FLUSH", 1) == {"acknowledged is stored"}


def test_a_retry_at_a_number_that_a_promoted_slave_gave_again_may_be_missed_and_no_other() -> None:
    def handed_back(retry_end: int) -> Story:
        story = Story(slave=True).begin_member().send("m1", 0).consume("m1", 0, "retry")
        story.consume("m1", 0, "retry", attempt=1, queue=RETRY_Q).consume("m1", 65, "retry", attempt=2, queue=RETRY_Q)
        story.end_broker("lost").end_broker("stopped", "s").begin_broker("s")
        story.note(QueueEnds(Q, 0, 1, False, node="s"), QueueEnds(RETRY_Q, 0, retry_end, False, node="s"))
        return story.store("m1", 0, node="s").store("m1", 0, queue=RETRY_Q, node="s")

    assert handed_back(1).store("m1", 65, queue=RETRY_Q, node="s").end().found() == set()
    assert handed_back(2).store("m1", 65, queue=RETRY_Q, node="s").end().found() == {"stored is consumed"}
    assert handed_back(1).end().found() == {"stored is consumed"}
