from __future__ import annotations

from skyrocketmq.testing.simulation.history import QueueEnds, QueueId
from tests.simulation.story import DEAD_Q, QUEUE_OF_OTHERS, RETRY_Q, Q, Story

INVENTED = {"nothing is invented"}
TWICE = {"one offset, one message"}


def test_what_nobody_sent() -> None:
    story = Story().begin_member()
    story.show("ghost", 0)
    assert story.end().found() == INVENTED


def test_what_is_stored_and_nobody_sent() -> None:
    assert Story().store("ghost", 0).end().found() == INVENTED


def test_what_arrives_changed() -> None:
    story = Story().begin_member().send("m1", 0).store("m1", 0)
    story.finish(story.show("m1", 0, text="changed on the way"))
    assert story.end().found() == INVENTED


def test_what_arrives_before_it_is_sent() -> None:
    story = Story().begin_member().consume("m1", 0).send("m1", 0).store("m1", 0)
    assert story.end().found() == INVENTED


def test_a_message_of_another_topic() -> None:
    story = Story().begin_member().begin_send("m1", topic="U").store("m1", 0, queue=QueueId("U", "a", 0))
    assert story.consume("m1", 0).end().found() == INVENTED


def test_retries_and_dead_letters_come_from_the_topics_of_their_group() -> None:
    story = Story().begin_member(attempts_max=1).send("m1", 0).consume("m1", 0, "retry")
    story.consume("m1", 0, "retry", attempt=1, queue=RETRY_Q).store("m1", 0).store("m1", 0, queue=DEAD_Q)
    assert story.end().found() == set()
    foreign = Story().begin_member().begin_send("m1", topic="U").store("m1", 0, queue=QueueId("U", "a", 0))
    assert foreign.consume("m1", 0, attempt=1, queue=RETRY_Q).end().found() == INVENTED


def test_a_number_that_was_told_belongs_to_its_message_for_ever() -> None:
    story = Story(flush="ASYNC_FLUSH").send("m1", 0).end_broker("power cut").begin_broker(flush="ASYNC_FLUSH")
    assert story.send("m2", 0).store("m2", 0).end().found() >= TWICE


def test_a_number_that_was_shown_belongs_to_its_message() -> None:
    story = Story().begin_member().begin_send("m1").consume("m1", 0).send("m2", 0)
    assert story.store("m2", 0).consume("m2", 0).end().found() == TWICE


def test_duplicates_have_numbers_of_their_own() -> None:
    story = Story().begin_member().send("m1", 1).store("m1", 0).store("m1", 1).consume("m1", 0).consume("m1", 1)
    assert story.end().found() == set()


def test_a_promoted_slave_may_give_what_it_never_had_again_and_nothing_else() -> None:
    def story(slave_end: int, number: int = 0) -> Story:
        story = Story(slave=True).send("m1", number).end_broker("lost").end_broker("stopped", "s").begin_broker("s")
        story.note(QueueEnds(Q, 0, slave_end, False, node="s"))
        return story.send("m2", number).store("m2", number, node="s").end()

    assert story(slave_end=0).found() == set()
    assert story(slave_end=1).found() == TWICE | {"queues are in order"}
    assert story(slave_end=1, number=64).found() == TWICE | {"queues are in order"}  # within what it has to skip
    assert story(slave_end=1, number=65).found() == set()


def test_the_place_of_a_delayed_message_is_not_that_of_its_queue() -> None:
    story = Story().begin_send("later", kind="delayed", delay_s=1).answer("later", 0).send("m1", 0)
    assert story.store("m1", 0).store("later", 1).end().found() == set()


def test_a_queue_that_the_slave_did_not_have_begins_anew() -> None:
    story = Story(slave=True).begin_member().begin_send("old").answer("old", 0, queue=QUEUE_OF_OTHERS)
    story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").note(QueueEnds(Q, 0, 0, False, node="s"))
    story.begin_send("new").answer("new", 0, queue=QUEUE_OF_OTHERS).store("new", 0, node="s", queue=QUEUE_OF_OTHERS)
    assert story.consume("new", 0, queue=QUEUE_OF_OTHERS).end().found() == set()


def test_a_member_may_try_again_what_it_got_from_a_master_that_is_lost() -> None:
    def story(node: str) -> Story:
        story = Story(slave=True).begin_member().begin_member("c2").begin_send("old").consume("old", 0, "retry")
        story.end_broker("lost").end_broker("stopped", "s").begin_broker("s").note(QueueEnds(Q, 0, 0, False, node="s"))
        return story.send("new", 0).store("new", 0, node="s").consume("old", 0, node=node).consume("new", 0).end()

    assert story("c1").found() == set()
    assert story("c2").found() == TWICE


def test_what_was_fetched_of_a_lost_master_may_be_shown_when_its_number_is_given_again() -> None:
    def story(stored_by: str, *, slave_end: int = 0, comes_back: bool = False) -> Story:
        story = Story(slave=True).begin_member().begin_send("old").end_broker("lost").end_broker("stopped", "s")
        story.begin_broker("s").note(QueueEnds(Q, 0, slave_end, False, node="s")).send("new", 0)
        if comes_back:
            story.end_broker("stopped", "s").begin_broker("m").note(QueueEnds(Q, 0, 1, False, node="m"))
        story.store("new", 0, node="m" if comes_back else "s").consume("new", 0)
        return story.consume("old", 0, stored_by=stored_by).end()

    assert story("m").found() == set()
    assert story("s").found() == TWICE
    assert story("").found() == TWICE
    assert story("m", slave_end=1).found() == TWICE
    assert story("m", comes_back=True).found() == TWICE
