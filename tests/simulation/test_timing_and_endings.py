from __future__ import annotations

import pytest

from skyrocketmq.testing.simulation.history import ClockMoved, LogDigested, OffsetReset, OffsetSeen
from tests.simulation.story import DEAD_Q, RETRY_Q, Q, Story

EARLY = {"never early"}


def delayed(after_s: float, *moves_ms: int) -> Story:
    story = Story().begin_member().begin_send("m1", kind="delayed", delay_s=10).answer("m1", 0).store("m1", 0)
    story.note(*(ClockMoved(move, node="m") for move in moves_ms))
    return story.wait(after_s).consume("m1", 0).end()


@pytest.mark.parametrize(("after_s", "found"), [(9.9, EARLY), (10, set()), (60, set())])
def test_a_delayed_message_comes_after_its_delay(after_s: float, found: set[str]) -> None:
    assert delayed(after_s).found() == found


@pytest.mark.parametrize(
    ("moves_ms", "after_s", "found"),
    [
        ((4000,), 6.5, set()),  # the broker's clock was set 4 s forward
        ((4000,), 5.5, EARLY),
        ((-60_000,), 9, EARLY),  # a clock that is set back makes nothing due
        ((-60_000,), 10, set()),
    ],
)
def test_a_delay_is_measured_by_the_brokers_clock(moves_ms: tuple[int, ...], after_s: float, found: set[str]) -> None:
    assert delayed(after_s, *moves_ms).found() == found


@pytest.mark.parametrize(("after_s", "found"), [(4.5, EARLY), (5, set())])
def test_a_retry_waits_for_its_pause(after_s: float, found: set[str]) -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0).consume("m1", 0, "retry", delay_s=5).wait(after_s)
    assert story.consume("m1", 0, attempt=1, queue=RETRY_Q).end().found() == found


def test_the_same_message_again_from_its_own_queue_is_no_retry() -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0).consume("m1", 0, "retry", delay_s=5)
    assert story.consume("m1", 0).end().found() == set()


TRANSACTIONS = {"transactions hold"}


def half() -> Story:
    return Story().begin_member().begin_send("m1", kind="transactional").answer("m1", -1)


def test_a_committed_message_is_seen() -> None:
    assert half().decide("m1", "commit").store("m1", 0).consume("m1", 0).end().found() == set()


def test_a_message_seen_before_its_commit() -> None:
    assert half().consume("m1", 0).decide("m1", "commit").store("m1", 0).end().found() == TRANSACTIONS


def test_a_message_seen_after_its_rollback() -> None:
    assert half().decide("m1", "rollback").store("m1", 0).consume("m1", 0).end().found() == TRANSACTIONS
    assert half().decide("m1", "unknown").consume("m1", 0).end().found() == TRANSACTIONS


def test_a_transaction_committed_twice() -> None:
    story = half().decide("m1", "commit").store("m1", 0).store("m1", 1).consume("m1", 0)
    assert story.end().found() == TRANSACTIONS


DEAD = {"one dead letter"}


def dying(*, letters: int, attempts_max: int = 1) -> Story:
    story = Story().begin_member(attempts_max=attempts_max).send("m1", 0).store("m1", 0).consume("m1", 0, "retry")
    story.consume("m1", 0, "error", attempt=1, queue=RETRY_Q)
    for offset in range(letters):
        story.store("m1", offset, queue=DEAD_Q)
    return story


def test_a_message_dies_once() -> None:
    assert dying(letters=1).end().found() == set()
    assert dying(letters=2).end().found() == DEAD


def test_not_before_its_attempts_are_used_up() -> None:
    assert dying(letters=1, attempts_max=2).end().found() == DEAD


def test_once_for_each_time_that_it_was_stored() -> None:
    story = Story().begin_member(attempts_max=0).send("m1", 0).store("m1", 0).store("m1", 1).consume("m1", 0, "retry")
    story.store("m1", 0, queue=DEAD_Q).store("m1", 1, queue=DEAD_Q)
    assert story.end().found() == set()


def seen(story: Story, *offsets: int) -> Story:
    return story.note(*(OffsetSeen("g", Q, offset, node="m") for offset in offsets))


def test_progress_does_not_go_back() -> None:
    assert seen(Story(), 1, 1, 5).end().found() == set()
    assert seen(Story(), 5, 4).end().found() == {"progress goes on"}


def test_progress_goes_back_by_a_reset_or_an_end_without_a_save() -> None:
    assert seen(seen(Story(), 5).note(OffsetReset("g", "T", node="admin")), 0).end().found() == set()
    late = seen(
        seen(Story(), 5).note(OffsetReset("g", "T", node="admin"), OffsetReset("g", "T", True, node="admin")), 5
    )
    assert seen(late, 0, 3).end().found() == set(), "a member that is paused hears of it later"
    assert seen(seen(Story(), 5).note(OffsetReset("g", "T", node="admin")), 0, 3, 2).end().found() == {
        "progress goes on"
    }, "once"
    assert seen(seen(Story(), 5).end_broker("killed").begin_broker(), 4).end().found() == set()
    assert seen(seen(Story(), 5).end_broker("stopped").begin_broker(), 4).end().found() == {"progress goes on"}


def digests(story: Story, master: str, slave: str) -> Story:
    master_log = LogDigested("a", "ASYNC_MASTER", 0, 100, master, node="m")
    return story.note(master_log, LogDigested("a", "SLAVE", 0, 100, slave, node="s")).end()


def test_a_slave_has_its_masters_bytes() -> None:
    assert digests(Story(slave=True), "x", "x").found() == set()
    assert digests(Story(slave=True), "x", "y").found() == {"a slave is a prefix"}


def test_a_slave_may_keep_what_its_master_lost_before_it_was_synced() -> None:
    def cut(flush: str) -> Story:
        return Story(slave=True, flush=flush).end_broker("power cut").begin_broker(flush=flush)

    def cut_after_kill(flush: str, fault: str = "power cut", node: str = "m") -> Story:
        story = Story(slave=True, flush=flush).end_broker("killed").wait(1).fault(fault, node).wait(1)
        return story.begin_broker(flush=flush)

    for lose in (cut, cut_after_kill):
        assert digests(lose("ASYNC_FLUSH"), "x", "y").found() == set()
        assert digests(lose("SYNC_FLUSH"), "x", "y").found() == {"a slave is a prefix"}
    assert digests(cut_after_kill("ASYNC_FLUSH", node="s"), "x", "y").found() == {"a slave is a prefix"}
    assert digests(cut_after_kill("ASYNC_FLUSH", "clock jump"), "x", "y").found() == {"a slave is a prefix"}


def test_clocks_of_others_and_later_moves_are_no_excuse() -> None:
    story = Story().begin_member().begin_send("m1", kind="delayed", delay_s=10).answer("m1", 0).store("m1", 0)
    story.note(ClockMoved(9000, node="c1")).wait(5).consume("m1", 0).note(ClockMoved(9000, node="m"))
    assert story.end().found() == EARLY


def test_a_clock_that_was_off_before_is_off_by_nothing() -> None:
    story = Story().note(ClockMoved(9000, node="m")).wait(1).begin_member()
    story.begin_send("m1", kind="delayed", delay_s=10).answer("m1", 0).store("m1", 0).wait(5).consume("m1", 0)
    assert story.end().found() == EARLY


def test_the_first_hand_back_counts() -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0).consume("m1", 0, "retry", delay_s=5).wait(3)
    story.consume("m1", 0, "retry", delay_s=5).wait(3).consume("m1", 0, attempt=1, queue=RETRY_Q)
    assert story.end().found() == set()


def test_a_reset_of_another_topic_is_no_excuse() -> None:
    story = seen(seen(Story(), 5).note(OffsetReset("g", "U", node="admin")), 0)
    assert story.end().found() == {"progress goes on"}
    story = seen(seen(Story(), 5).note(OffsetReset("h", "T", node="admin")), 0)
    assert story.end().found() == {"progress goes on"}


def test_progress_may_go_back_where_a_slave_took_over() -> None:
    story = seen(Story(slave=True), 5).end_broker("stopped").end_broker("stopped", "s").begin_broker("s")
    assert seen(story, 4).end().found() == set()


def test_a_slave_may_differ_after_a_failed_sync_of_its_master_and_of_no_other() -> None:
    def failed(fault: str, node: str) -> Story:
        return Story(slave=True).fault(fault, node).end_broker("killed").begin_broker()

    assert digests(failed("failed sync", "m"), "x", "y").found() == set()
    assert digests(failed("failed sync", "s"), "x", "y").found() == {"a slave is a prefix"}
    assert digests(failed("disk full", "m"), "x", "y").found() == {"a slave is a prefix"}


def test_a_slave_may_differ_where_masters_changed() -> None:
    story = Story(slave=True).end_broker("stopped").end_broker("stopped", "s").begin_broker("s")
    assert digests(story, "x", "y").found() == set()


def test_progress_may_go_back_for_a_while_after_a_slave_took_over() -> None:
    def promoted(later_s: float) -> Story:
        story = Story(slave=True).end_broker("stopped").end_broker("stopped", "s").begin_broker("s")
        return seen(seen(story.wait(later_s), 5).wait(2), 4).end()

    assert promoted(1).found() == set()
    assert promoted(60).found() == {"progress goes on"}


def test_progress_may_go_back_where_a_queue_changes_hands() -> None:
    def story(second: str, later_s: float) -> Story:
        story = Story().begin_member(kind="orderly").begin_member("c2", kind="orderly").send("m1", 0).send("m2", 1)
        story.store("m1", 0).store("m2", 1).consume("m1", 0, kind="orderly").consume("m2", 1, kind="orderly")
        return seen(story.consume("m2", 1, node=second, kind="orderly").wait(later_s), 2, 1).end()

    assert story("c2", 5).found() == set()
    assert story("c1", 5).found() == {"progress goes on"}
    assert story("c2", 60).found() == {"progress goes on"}


def test_progress_of_members_without_locks_may_go_back_while_there_are_two() -> None:
    def story(*others: str) -> Story:
        story = Story().begin_member()
        for node in others:
            story.begin_member(node)
        return story

    assert seen(story("c2"), 2, 1).end().found() == set()
    assert seen(story(), 2, 1).begin_member("c2").end().found() == {"progress goes on"}
    assert seen(story("c2").end_member("killed", "c2").wait(60), 2, 1).end().found() == {"progress goes on"}
    assert seen(story("c2").end_member("killed", "c2").wait(5), 2, 1).end().found() == set()


def test_a_clock_that_goes_back_and_forth_has_gained_nothing() -> None:
    story = Story().begin_member().begin_send("m1", kind="delayed", delay_s=60).answer("m1", 0).store("m1", 0).wait(11)
    story.note(ClockMoved(-50_000, node="m")).wait(1).note(ClockMoved(0, node="m")).wait(5)
    assert story.consume("m1", 0).end().found() == EARLY


def test_between_the_clocks_of_a_master_and_its_slave_lies_their_difference() -> None:
    story = Story(slave=True).note(ClockMoved(4000, node="s")).begin_member()
    story.begin_send("m1", kind="delayed", delay_s=10).answer("m1", 0).store("m1", 0).wait(6.5)
    assert story.consume("m1", 0).end().found() == set()
