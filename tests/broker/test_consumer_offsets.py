from __future__ import annotations

import pytest

from skyrocketmq.broker.consumer_offsets import ConsumerOffsets, young_queue_start


def committed(*commits: tuple[str, str, int, int]) -> ConsumerOffsets:
    offsets = ConsumerOffsets()
    for group, topic, queue_id, offset in commits:
        offsets.commit(group=group, topic=topic, queue_id=queue_id, offset=offset)
    return offsets


def test_an_offset_is_found_where_it_was_committed_and_nowhere_else() -> None:
    offsets = committed(("billing", "orders", 2, 17))
    assert offsets.find(group="billing", topic="orders", queue_id=2) == 17
    assert offsets.find(group="billing", topic="orders", queue_id=3) is None
    assert offsets.find(group="audit", topic="orders", queue_id=2) is None


def test_an_offset_may_go_back() -> None:
    offsets = committed(("billing", "orders", 0, 17), ("billing", "orders", 0, 4))
    assert offsets.find(group="billing", topic="orders", queue_id=0) == 4


def test_committing_the_same_offset_again_is_no_change() -> None:
    offsets = committed(("billing", "orders", 0, 17))
    before = offsets.change_count
    offsets.commit(group="billing", topic="orders", queue_id=0, offset=17)
    assert offsets.change_count == before
    offsets.commit(group="billing", topic="orders", queue_id=0, offset=18)
    assert offsets.change_count == before + 1


def test_topics_of_a_group_and_groups_of_a_topic_are_told_apart_from_names_that_only_end_or_begin_alike() -> None:
    offsets = committed(("g", "orders", 0, 1), ("bigg", "orders", 0, 1), ("g", "orders2", 0, 1))
    assert sorted(offsets.topics_of("g")) == ["orders", "orders2"]
    assert sorted(offsets.groups_of("orders")) == ["bigg", "g"]


def test_forgetting_a_group_leaves_the_others() -> None:
    offsets = committed(("billing", "orders", 0, 1), ("billing", "refunds", 0, 1), ("audit", "orders", 0, 9))
    before = offsets.change_count
    assert sorted(offsets.forget_group("billing")) == ["orders", "refunds"]
    assert offsets.table() == {"orders@audit": {0: 9}}
    assert offsets.change_count > before


def test_the_table_is_a_copy() -> None:
    offsets = committed(("billing", "orders", 0, 1))
    table = offsets.table()
    offsets.commit(group="billing", topic="orders", queue_id=0, offset=2)
    assert table == {"orders@billing": {0: 1}}
    assert offsets.table() == {"orders@billing": {0: 2}}


def test_a_restored_table_is_no_change_to_write() -> None:
    offsets = ConsumerOffsets()
    offsets.restore({"orders@billing": {0: 5, 1: 6}})
    assert offsets.queues_of(group="billing", topic="orders") == {0: 5, 1: 6}
    assert offsets.change_count == 0


def test_merging_replaces_the_queues_of_each_key_whole_and_keeps_other_keys() -> None:
    offsets = committed(("billing", "orders", 0, 1), ("billing", "orders", 1, 1), ("audit", "orders", 0, 3))
    before = offsets.change_count
    offsets.merge({"orders@billing": {0: 7}})
    assert offsets.table() == {"orders@billing": {0: 7}, "orders@audit": {0: 3}}
    assert offsets.change_count == before + 1
    offsets.merge({"orders@billing": {0: 7}})
    assert offsets.change_count == before + 1


@pytest.mark.parametrize(
    ("begin", "min_offset", "is_first_cold", "start"),
    [
        (0, 0, False, 0),
        (0, -1, False, 0),
        (0, 0, True, None),
        (0, 1, False, None),
        (0, 1, True, None),
        (9, 9, False, 9),
        (9, 7, False, 7),
        (9, 9, True, None),
        (9, 10, False, None),
    ],
)
def test_a_group_without_offset_starts_at_the_beginning_only_of_a_young_queue(
    begin: int, min_offset: int, is_first_cold: bool, start: int | None
) -> None:
    assert young_queue_start(begin=begin, min_offset=min_offset, is_first_cold=is_first_cold) == start
