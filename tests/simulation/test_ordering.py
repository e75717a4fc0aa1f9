from __future__ import annotations

from skyrocketmq.testing.simulation.history import QueueId
from tests.simulation.story import DEAD_Q, Story


def orderly() -> Story:
    story = Story().begin_member(kind="orderly").begin_member("c2", kind="orderly")
    return story.send("m1", 0).send("m2", 1).store("m1", 0).store("m2", 1)


def test_a_later_send_lies_after_an_answered_one() -> None:
    story = Story().send("m1", 5).send("m2", 4).store("m1", 5).store("m2", 4)
    assert story.end().found() == {"queues are in order"}


def test_sends_under_way_at_once_may_lie_in_any_order() -> None:
    story = Story().begin_send("m1").begin_send("m2").answer("m1", 5).answer("m2", 4).store("m1", 5).store("m2", 4)
    assert story.end().found() == set()


def test_queues_are_numbered_each_for_itself() -> None:
    other = QueueId("T", "a", 1)
    story = Story().send("m1", 5).begin_send("m2").answer("m2", 0, queue=other)
    assert story.store("m1", 5).store("m2", 0, queue=other).end().found() == set()


def test_an_orderly_group_handles_one_after_the_other() -> None:
    assert orderly().consume("m1", 0, kind="orderly").consume("m2", 1, kind="orderly").end().found() == set()


def test_an_orderly_group_may_begin_again_further_back() -> None:
    story = orderly().consume("m1", 0, kind="orderly").consume("m2", 1, kind="orderly")
    story.consume("m1", 0, kind="orderly", node="c2").consume("m2", 1, kind="orderly", node="c2")
    assert story.end().found() == set()


def test_an_orderly_group_must_not_step_over_a_message() -> None:
    story = orderly().consume("m2", 1, kind="orderly").consume("m1", 0, kind="orderly")
    assert story.end().found() == {"orderly skips nothing"}


def test_nor_go_on_while_one_fails() -> None:
    story = orderly().consume("m1", 0, "retry", kind="orderly").consume("m2", 1, kind="orderly")
    assert story.consume("m1", 0, kind="orderly", attempt=1).end().found() == {"orderly skips nothing"}


def test_unless_it_died() -> None:
    story = Story().begin_member(kind="orderly", attempts_max=0)
    story.send("m1", 0).send("m2", 1).store("m1", 0).store("m2", 1).store("m1", 0, queue=DEAD_Q)
    assert story.consume("m1", 0, "retry", kind="orderly").consume("m2", 1, kind="orderly").end().found() == set()


def test_concurrent_groups_have_no_order() -> None:
    story = Story().begin_member().send("m1", 0).send("m2", 1).store("m1", 0).store("m2", 1)
    assert story.consume("m2", 1).consume("m1", 0).end().found() == set()


def test_messages_of_a_key_are_begun_as_they_were_sent() -> None:
    def keyed() -> Story:
        story = Story().begin_member(kind="orderly")
        return story.send("k1", 7, key="k").send("k2", 8, key="k").store("k1", 7).store("k2", 8)

    assert keyed().consume("k1", 7, kind="orderly").consume("k2", 8, kind="orderly").end().found() == set()
    turned = keyed().consume("k2", 8, kind="orderly").consume("k1", 7, kind="orderly")
    assert turned.end().found() == {"keys are in order", "orderly skips nothing"}


def test_two_members_at_one_queue() -> None:
    story = orderly()
    first = story.show("m1", 0, kind="orderly")
    second = story.show("m1", 0, kind="orderly", node="c2")
    story.finish(first).finish(second, node="c2").consume("m2", 1, kind="orderly")
    assert story.end().found() == {"one owner at a time"}


def test_a_member_that_died_handles_nothing_more() -> None:
    story = orderly()
    story.show("m1", 0, kind="orderly")
    story.end_member("killed")
    story.consume("m1", 0, kind="orderly", node="c2").consume("m2", 1, kind="orderly", node="c2")
    assert story.end().found() == set()


def test_a_call_that_outlives_its_lock_is_its_own_fault() -> None:
    story = orderly()
    first = story.show("m1", 0, kind="orderly")
    story.wait(61).consume("m1", 0, kind="orderly", node="c2").finish(first).consume("m2", 1, kind="orderly", node="c2")
    assert story.end().found() == set()


def test_two_groups_do_not_disturb_each_other() -> None:
    story = Story().begin_member(kind="orderly").begin_member("c2", "h", "orderly").send("m1", 0).store("m1", 0)
    first = story.show("m1", 0, kind="orderly")
    story.consume("m1", 0, kind="orderly", node="c2", group="h").finish(first)
    assert story.end().found() == set()


def test_a_call_with_several_messages_is_one_step() -> None:
    story = orderly()
    call = story.show("m1", 0, kind="orderly")
    story.calls -= 1
    assert story.show("m2", 1, kind="orderly") == call
    assert story.finish(call).end().found() == set()


def test_an_answer_that_is_not_the_first_is_compared_too() -> None:
    story = Story().begin_send("slow").send("m1", 5).send("m2", 7).send("m3", 6).answer("slow", 8)
    story.store("slow", 8).store("m1", 5).store("m2", 7).store("m3", 6)
    assert story.end().found() == {"queues are in order"}
    story = Story().begin_send("slow").send("m1", 5).answer("slow", 4).store("m1", 5).store("slow", 4)
    assert story.end().found() == set()


def test_unanswered_messages_of_a_key_have_no_place_in_its_order() -> None:
    story = Story().begin_member(kind="orderly").begin_send("k1", key="k").send("k2", 0, key="k").store("k2", 0)
    story.store("k1", 1).consume("k2", 0, kind="orderly").consume("k1", 1, kind="orderly")
    assert story.end().found() == set()


def test_the_queue_of_another_group_is_another_matter() -> None:
    story = Story().begin_member(kind="orderly").begin_member("c2", "h", "orderly").send("m1", 0).send("m2", 1)
    story.store("m1", 0).store("m2", 1).consume("m1", 0, kind="orderly", node="c2", group="h")
    story.consume("m2", 1, kind="orderly", node="c2", group="h").consume("m2", 1, kind="orderly")
    assert story.consume("m1", 0, kind="orderly").end().found() == {"orderly skips nothing"}


def test_an_overlap_late_in_a_long_run() -> None:
    story = orderly().wait(500)
    first = story.show("m1", 0, kind="orderly")
    story.wait(20).consume("m1", 0, kind="orderly", node="c2").finish(first).consume("m2", 1, kind="orderly")
    assert story.end().found() == {"one owner at a time"}


def test_a_slave_that_took_over_knows_no_locks_yet() -> None:
    def story(later_s: float) -> Story:
        story = Story(slave=True).begin_member(kind="orderly").begin_member("c2", kind="orderly").send("m1", 0)
        story.end_broker("stopped").end_broker("stopped", "s").begin_broker("s").wait(later_s).store("m1", 0, node="s")
        first = story.show("m1", 0, kind="orderly")
        return story.consume("m1", 0, kind="orderly", node="c2").finish(first).end()

    assert story(1).found() == set()
    assert story(70).found() == {"one owner at a time"}
