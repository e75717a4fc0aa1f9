"""Senders that choose the queue."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.selectors import java_hash, select_by_hash, select_by_machine_room, select_random
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message
from skyrocketmq.wire.java import string_hash

from .queues import queues_of

MESSAGE = Message("T", b"x")
QUEUES = queues_of("broker-a", each=4)


@pytest.mark.parametrize(
    ("value", "expected"),  # what Java prints for hashCode of the same value
    [
        ("order-1", string_hash("order-1")),
        (True, 1231),
        (False, 1237),
        (7, 7),
        (-7, -7),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (-(2**31), -(2**31)),
        (-(2**31) - 1, -(2**31)),
        (2**63 - 1, -(2**31)),
        (1.5, 1073217536),
        (-0.0, -2147483648),
        (float("nan"), 2146959360),
        (UUID("123e4567-e89b-12d3-a456-426614174000"), 1256478162),
    ],
)
def test_hashes_are_javas(value: object, expected: int) -> None:
    assert java_hash(value) == expected


@pytest.mark.parametrize(("value", "queue_id"), [(5, 1), (-5, 1), (-7, 3), (0, 0), (-(2**31), 0)])
def test_a_negative_hash_counts_by_its_absolute_remainder(value: int, queue_id: int) -> None:
    assert select_by_hash(QUEUES, MESSAGE, value).queue_id == queue_id


@given(
    value=st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.uuids() | st.booleans(),
    count=st.integers(1, 20),
)
def test_equal_arguments_go_to_the_same_queue(value: object, count: int) -> None:
    queues = queues_of("broker-a", each=count)
    assert select_by_hash(queues, MESSAGE, value) is select_by_hash(queues, MESSAGE, value)


@pytest.mark.parametrize("value", [None, b"bytes", object(), 2**63])
def test_an_argument_without_a_lasting_hash_is_refused(value: object) -> None:
    with pytest.raises(IllegalArgument, match="the selector's argument"):
        select_by_hash(QUEUES, MESSAGE, value)


def test_random_selection_reaches_every_queue() -> None:
    assert {select_random(QUEUES, MESSAGE, None) for _ in range(400)} == set(QUEUES)


def test_the_machine_room_selector_takes_turns_in_its_rooms() -> None:
    queues = queues_of("north@a", "south@a", "plain", each=2)
    select = select_by_machine_room(["south"])
    assert [select(queues, MESSAGE, None) for _ in range(3)] == [queues[2], queues[3], queues[2]]


def test_the_machine_room_selector_takes_any_queue_when_its_rooms_have_none() -> None:
    select = select_by_machine_room({"west"})
    assert [select(QUEUES, MESSAGE, None) for _ in range(5)] == [*QUEUES, QUEUES[0]]
