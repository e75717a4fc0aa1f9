"""Who reads which queue: the family's figures, and what holds for any group."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.allocation import (
    AllocationStrategy,
    ConsistentHash,
    FixedQueues,
    MachineRoom,
    MachineRoomNearby,
    average,
    average_by_circle,
    machine_room_of,
    share_of,
    sorted_client_ids,
    sorted_queues,
)
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue

from .queues import ids, queues_of

MEMBERS = ["c1", "c2", "c3"]
ROOMS = ["north", "south", "west"]


def nearby(inner: AllocationStrategy) -> MachineRoomNearby:
    """Brokers and clients are named `room@name`."""
    return MachineRoomNearby(
        inner,
        room_of_queue=lambda queue: machine_room_of(queue.broker_name),
        room_of_client=machine_room_of,
    )


class TestTheFamilysFigures:
    @pytest.mark.parametrize(
        ("strategy", "shares"),
        [
            pytest.param(average, [[0, 1, 2], [3, 4, 5], [6, 7]], id="average"),
            pytest.param(average_by_circle, [[0, 3, 6], [1, 4, 7], [2, 5]], id="circle"),
            pytest.param(ConsistentHash(), [[0, 4], [1, 2, 5, 6, 7], [3]], id="consistent hash"),
        ],
    )
    def test_eight_queues_and_three_members(self, strategy: AllocationStrategy, shares: list[list[int]]) -> None:
        queues = queues_of("broker-a", each=8)
        assert [ids(strategy(member, queues, MEMBERS)) for member in MEMBERS] == shares

    def test_more_members_than_queues_leave_the_last_members_idle(self) -> None:
        queues = queues_of("broker-a", each=2)
        members = ["c1", "c2", "c3", "c4"]
        assert [ids(average(member, queues, members)) for member in members] == [[0], [1], [], []]

    def test_machine_room_takes_the_rest_from_the_end(self) -> None:
        queues = queues_of("north@a", each=8)
        strategy = MachineRoom(frozenset({"north"}))
        assert [ids(strategy(member, queues, MEMBERS)) for member in MEMBERS] == [[0, 1, 6], [2, 3, 7], [4, 5]]

    def test_machine_room_leaves_out_other_rooms_and_names_without_a_room(self) -> None:
        queues = queues_of("north@a", "south@a", "plain", "north@a@b", each=1)
        share = MachineRoom(frozenset({"north"}))("c1", queues, ["c1"])
        assert [queue.broker_name for queue in share] == ["north@a"]

    @pytest.mark.parametrize(
        ("name", "room"),
        [("r@b", "r"), ("@b", ""), ("r@b@", "r"), ("r@", None), ("r", None), ("a@b@c", None), ("", None)],
    )
    def test_a_broker_name_is_split_as_java_splits_it(self, name: str, room: str | None) -> None:
        assert machine_room_of(name) == room

    def test_fixed_queues_are_what_was_configured(self) -> None:
        queues = queues_of("broker-a", each=4)
        assert FixedQueues((queues[3], queues[1]))("c9", queues, MEMBERS) == [queues[3], queues[1]]


class TestMachineRoomNearby:
    def test_each_room_reads_its_own_queues(self) -> None:
        queues = queues_of("north@a", "south@a", each=4)
        members = ["north@1", "north@2", "south@1"]
        shares = {member: nearby(average)(member, queues, members) for member in members}
        assert ids(shares["north@1"]) == [0, 1]
        assert ids(shares["north@2"]) == [2, 3]
        assert shares["south@1"] == queues_of("south@a", each=4)

    def test_queues_of_a_deserted_room_are_divided_among_all(self) -> None:
        queues = queues_of("north@a", "west@a", each=2)
        members = ["north@1", "south@1"]
        assert nearby(average)("north@1", queues, members) == [*queues[:2], queues[2]]
        assert nearby(average)("south@1", queues, members) == [queues[3]]

    def test_a_place_that_is_not_known_is_an_error_that_names_it(self) -> None:
        with pytest.raises(IllegalArgument, match="broker-x"):
            nearby(average)("north@1", queues_of("broker-x", each=1), ["north@1"])
        with pytest.raises(IllegalArgument, match="elsewhere"):
            nearby(average)("north@1", queues_of("north@a", each=1), ["north@1", "elsewhere"])


class TestJavasOrder:
    def test_characters_beyond_the_first_plane_come_before_private_ones(self) -> None:
        assert sorted_client_ids(["\ue000", "\U0001f680", "z"]) == ["z", "\U0001f680", "\ue000"]
        queues = [MessageQueue("T", "\ue000", 0), MessageQueue("T", "\U0001f680", 0)]
        assert sorted_queues(queues) == queues[::-1]

    def test_queue_ids_are_numbers(self) -> None:
        queues = [MessageQueue("T", "a", number) for number in (10, 2, 1)]
        assert ids(sorted_queues(queues)) == [1, 2, 10]

    def test_a_client_that_is_listed_twice_counts_twice_as_it_does_for_java_members(self) -> None:
        share = share_of("c2", queues_of("broker-a", each=6), ["c2", "c1", "c1"], strategy=average)
        assert ids(share) == [4, 5]


# What holds for any group --------------------------------------------------------------------------------------------

room_names = st.sampled_from(ROOMS)
placed_names = st.builds(
    "{}@{}".format, room_names, st.text(st.characters(codec="utf-8", exclude_characters="@"), min_size=1, max_size=5)
)
groups = st.lists(placed_names, min_size=1, max_size=8, unique=True)
queue_lists = st.lists(
    st.builds(MessageQueue, st.just("T"), placed_names, st.integers(0, 15)), max_size=40, unique=True
)
complete_strategies = st.sampled_from(
    [
        average,
        average_by_circle,
        ConsistentHash(),
        ConsistentHash(points=1),
        MachineRoom(frozenset(ROOMS)),
        nearby(average),
        nearby(average_by_circle),
        nearby(ConsistentHash()),
    ]
)


@given(strategy=complete_strategies, queues=queue_lists, members=groups)
def test_every_queue_is_owned_exactly_once(
    strategy: AllocationStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    owned = Counter(queue for member in members for queue in share_of(member, queues, members, strategy=strategy))
    assert owned == Counter(queues)


@given(strategy=complete_strategies, queues=queue_lists, members=groups, data=st.data())
def test_members_agree_in_whatever_order_they_learn_of_each_other(
    strategy: AllocationStrategy, queues: list[MessageQueue], members: list[str], data: st.DataObject
) -> None:
    other_queues = data.draw(st.permutations(queues))
    other_members = data.draw(st.permutations(members))
    for member in members:
        assert share_of(member, queues, members, strategy=strategy) == share_of(
            member, other_queues, other_members, strategy=strategy
        )


@given(strategy=complete_strategies, queues=queue_lists, members=groups)
def test_a_client_that_is_not_listed_gets_nothing(
    strategy: AllocationStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    assert share_of("north@nobody at all", queues, members, strategy=strategy) == []


@given(
    strategy=st.sampled_from([average, average_by_circle, MachineRoom(frozenset(ROOMS))]),
    queues=queue_lists,
    members=groups,
)
def test_even_strategies_differ_by_one_queue_at_most(
    strategy: AllocationStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    sizes = [len(share_of(member, queues, members, strategy=strategy)) for member in members]
    assert max(sizes) - min(sizes) <= 1


@given(queues=queue_lists, members=groups)
def test_a_member_that_leaves_the_ring_moves_only_its_own_queues(
    queues: list[MessageQueue], members: list[str]
) -> None:
    *staying, _ = members
    for member in staying:
        before = share_of(member, queues, members, strategy=ConsistentHash())
        after = share_of(member, queues, staying, strategy=ConsistentHash())
        assert set(before) <= set(after)
