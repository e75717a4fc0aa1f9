"""Feeds damaged inputs to every decoder: the outcome must be a value or a `ProtocolError`, within bounded time.

    python -m tests.wire.fuzz --inputs 5000000 [--seed 1] [--only NAME] [--state FILE] [--jobs 2]

With a state file the run goes on where the last one ended, and counts what all of them have fed to the decoders as they
are now: `--inputs` is then the number to reach.

The targets are lists of (name, decoder, seed inputs); a new decoder is added to one of them. A failure prints the input
in hexadecimal; the same seed finds it again. The process limits its own memory, so that a decoder that takes too much
fails like one that raises the wrong thing.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from skyrocketmq.errors import ProtocolError
from tests.wire import fuzz_messages, fuzz_transport
from tests.wire.fuzz_messages import Target
from tests.wire.fuzz_state import FuzzState

TARGETS: list[Target] = [*fuzz_transport.TARGETS, *fuzz_messages.TARGETS]

PIECE_INPUTS = 200_000
MEMORY_BYTES_MAX = 2 << 30
INPUT_BYTES_MAX = 64 * 1024
LARGE_INPUT_BYTES = 256 * 1024
LARGE_INPUT_EVERY = 2_000  # now and then a piece is repeated until the input is large: quadratic work shows there

# What a decoder may take of the processor; quadratic work on the large inputs takes far longer. The slowest decoders
# need about 1 us a byte; the rest is for the collector of garbage and a busy machine.
SECONDS_MAX = 0.3
SECONDS_PER_BYTE_MAX = 6e-6

FRAGMENTS = [
    *(b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0", b"\xff", b"\0\0\0\1", b"\x01"),
    *(b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"\\", b"/*", b"*/", b"//", b"\n", b" ", b"&", b"="),
    *(b"null", b"true", b"NaN", b"-1", b"0", b"1e999", b"9" * 25, b"1.5", b"2147483648", b"9223372036854775808"),
    *(b'{"$ref":"$"}', b'{"$ref":".."}', b'{"$ref":"$.a"}', b'{"$ref":"@"}', b"{{}:1}", b"{0:1}", b"[" * 70, b"{" * 70),
    *(
        b"\\ud800",
        b"\\udc00",
        b"\\u0000",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98\x80",
        b"\xff\xfe",
        b"\xc3\x28",
        b"\xe4\xb8\xad",
    ),
]


@dataclass
class Outcome:
    """What a run did, and the first thing that went wrong."""

    inputs: int = 0
    values: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    slowest_name: str = ""
    failure: str | None = None
    per_target: dict[str, int] = field(default_factory=dict)


def damaged(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed with up to eight injuries, or now and then something made of nothing but fragments."""
    if rng.random() < 0.02:
        return b"".join(rng.choices(FRAGMENTS, k=rng.randint(0, 40)))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((0, 1, 1, 2, 4, 16)))
        match rng.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = rng.randrange(256)
            case 2:
                data[at:end] = rng.choice(FRAGMENTS)
            case 3:
                data[at:at] = rng.choice(FRAGMENTS)
            case 4:
                del data[at:end]
            case 5:
                del data[at:]
            case 6:
                other = rng.choice(seeds)
                start = rng.randrange(len(other) + 1)
                data[at:end] = other[start : start + rng.randint(0, 40)]
            case _:
                data[at:at] = data[at:end] * rng.randint(1, 5)
    return bytes(data[:INPUT_BYTES_MAX])


def enlarged(rng: random.Random, data: bytes) -> bytes:
    """A piece of the input repeated until it is large."""
    if not data:
        return data
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randint(1, 30)]
    return data[:start] + piece * (LARGE_INPUT_BYTES // len(piece)) + data[start:]


def run(inputs: int, seed: int, targets: Sequence[Target] = TARGETS) -> Outcome:
    """Feed this many inputs, all targets in turn; stop at the first failure."""
    rng = random.Random(seed)
    outcome = Outcome()
    began = time.perf_counter()
    while outcome.inputs < inputs and outcome.failure is None:
        target = targets[outcome.inputs % len(targets)]
        data = damaged(rng, target.seeds)
        if rng.randrange(LARGE_INPUT_EVERY) == 0:
            data = enlarged(rng, data)
        outcome.inputs += 1
        _feed(target, data, outcome)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _feed(target: Target, data: bytes, outcome: Outcome) -> None:
    began = time.process_time()
    try:
        target.decode(data)
    except ProtocolError:
        pass
    except BaseException as error:
        outcome.failure = f"{target.name}: {type(error).__name__}: {error!s:.300} for {data.hex()}"
        if not isinstance(error, Exception):
            raise
    else:
        outcome.values += 1
        outcome.per_target[target.name] = outcome.per_target.get(target.name, 0) + 1
    seconds = time.process_time() - began
    if seconds > outcome.slowest_seconds:
        outcome.slowest_seconds, outcome.slowest_name = seconds, target.name
    if seconds > SECONDS_MAX + SECONDS_PER_BYTE_MAX * len(data) and outcome.failure is None:
        outcome.failure = f"{target.name}: {seconds:.2f} s for {len(data)} bytes: {data[:2000].hex()}"


def run_piece(number: int, only: str) -> Outcome:
    """One piece of a long run: the same number is always the same inputs."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    return run(PIECE_INPUTS, number, _targets(only))


def run_on(inputs: int, state: FuzzState, *, jobs: int, only: str) -> Outcome | None:
    """Feed pieces until so many inputs are counted; the outcome that failed, if one did."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        numbers = range(state.pieces, -(-inputs // PIECE_INPUTS))
        for begin in range(numbers.start, numbers.stop, jobs):
            batch = range(begin, min(begin + jobs, numbers.stop))
            for outcome in pool.map(run_piece, batch, [only] * len(batch)):
                if outcome.failure is not None:
                    return outcome
            state.note(batch.stop)
            print(f"{state.pieces * PIECE_INPUTS:,} of {inputs:,} inputs", flush=True)
    return None


def _targets(only: str) -> list[Target]:
    return [target for target in TARGETS if target.name.startswith(only)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--only", default="", help="only targets whose name begins like this")
    parser.add_argument("--state", type=Path, help="where to note what was done, to go on there")
    parser.add_argument("--jobs", type=int, default=1, help="processes, with --state")
    arguments = parser.parse_args()
    targets = _targets(arguments.only)
    if not targets:
        parser.error(f"no target begins with {arguments.only}: {', '.join(target.name for target in TARGETS)}")
    if arguments.state is not None:
        state = FuzzState(arguments.state)
        failed = run_on(arguments.inputs, state, jobs=arguments.jobs, only=arguments.only)
        fed = state.pieces * PIECE_INPUTS
        print(f"{fed:,} inputs to {len(targets)} decoders as they are now: {failed or 'no failure'}")
        return 1 if failed else 0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    print(f"{arguments.inputs} inputs for {len(targets)} decoders, seed {arguments.seed}", flush=True)
    outcome = run(arguments.inputs, arguments.seed, targets)
    rate = outcome.inputs / outcome.seconds if outcome.seconds else 0.0
    print(f"{outcome.inputs} inputs in {outcome.seconds:.1f} s: {rate:,.0f} a second, {outcome.values} were values")
    print(f"slowest input: {outcome.slowest_seconds * 1000:.1f} ms of processor time ({outcome.slowest_name})")
    if outcome.failure is not None:
        print(f"FAILED after {outcome.inputs} inputs: {outcome.failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
