from __future__ import annotations

import time
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.net.rest import Budget, Rest, needed_bytes

MIB = 1024 * 1024


@dataclass(frozen=True, eq=False)
class Somebody:
    """Who keeps bytes."""

    host: bytes = b"10.0.0.1"


def test_it_pays_to_look_again_when_the_length_the_header_word_or_the_frame_is_there() -> None:
    assert needed_bytes(b"") == 4
    assert needed_bytes(b"\0\0\0") == 4
    assert needed_bytes(b"\0\0\0\x10") == 8
    assert needed_bytes(b"\0\0\0\x10\0\0\0\x05") == 20


@given(pieces=st.lists(st.binary(min_size=1, max_size=5), min_size=1))
def test_pieces_come_back_whole_and_only_once_there_are_enough(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    rest = Rest(Budget(MIB), Somebody())
    rest.keep(b"", len(whole))
    got = [rest.add(piece) for piece in pieces]
    assert got == [b""] * (len(pieces) - 1) + [whole]
    assert rest.have_bytes == 0


def test_a_large_frame_in_small_pieces_is_joined_once() -> None:
    piece = bytes(4096)
    rest = Rest(Budget(MIB), Somebody())
    rest.keep(piece, 16 * MIB)
    started_at = time.process_time()
    while not (whole := rest.add(piece)):
        pass
    assert len(whole) == 16 * MIB
    assert time.process_time() - started_at < 0.5  # joined with each of its 4,095 pieces it would be 32 GiB of copying


def test_held_bytes_wait_for_their_reader_however_many_come() -> None:
    rest = Rest(Budget(MIB), Somebody())
    rest.hold(b"abc")
    assert rest.is_held
    assert rest.add(bytes(MIB)) == b""
    assert rest.take() == b"abc" + bytes(MIB)
    assert not rest.is_held


def test_what_is_kept_of_large_frames_counts_against_the_budget_until_it_is_taken() -> None:
    budget: Budget[Somebody] = Budget(3 * MIB)
    first, second, small = (Rest(budget, Somebody()) for _ in range(3))
    small.keep(bytes(1000), 2000)
    assert budget.used_bytes == 0
    first.keep(bytes(MIB), 16 * MIB)
    second.keep(bytes(MIB), 16 * MIB)
    first.add(bytes(MIB))
    assert (budget.used_bytes, budget.is_exceeded) == (3 * MIB, False)
    second.add(b"x")
    assert budget.is_exceeded
    first.take()
    assert (budget.used_bytes, budget.is_exceeded) == (MIB + 1, False)
    second.take()
    second.take()
    assert budget.used_bytes == 0


def test_who_has_to_go_is_the_oldest_frame_of_the_host_that_holds_most() -> None:
    budget: Budget[Somebody] = Budget(8 * MIB)
    honest, first, second = Somebody(b"honest"), Somebody(b"greedy"), Somebody(b"greedy")
    budget.add(honest, 3 * MIB)
    budget.add(first, 2 * MIB)
    budget.add(second, 2 * MIB)
    budget.add(honest, 1 * MIB + MIB // 2)
    assert budget.heaviest() is honest
    budget.add(second, 1 * MIB)
    assert budget.heaviest() is first
    assert budget.is_exceeded
    budget.give_back(first)
    assert budget.used_bytes == 7 * MIB + MIB // 2
