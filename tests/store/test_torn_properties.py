"""Zeros in properties: sent by somebody, or never written? What is known decides, never what a message looks like."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.config import BrokerRole, FlushDiskType, StoreConfig
from skyrocketmq.errors import DiskFull, FlushFailed
from skyrocketmq.model.flags import TransactionType
from skyrocketmq.store import NewMessage, PutStatus
from skyrocketmq.store.replica import LogCopy
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from skyrocketmq.wire.properties import decode_properties
from tests.store.reader import Record
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, put_batch, store_config

CONFIG = store_config(commit_log_file_bytes=1 << 16, flush_disk_type=FlushDiskType.SYNC_FLUSH)

SHAPES: dict[str, dict[str, str]] = {
    "at the start": {"name": "\0\0text"},
    "at the end": {"name": "text\0"},
    "many at the end": {"name": "text" + "\0" * 700},
    "UTF-16": {"name": "Grüße aus C".encode("utf-16-be").decode("latin-1") * 60},
    "nothing else": {"name": "\0" * 1500},
    "32 KB": {"name": "\0" * 32_000},
    "in the name": {"na\0me": "text"},
}


def awkward(number: int, more: dict[str, str], **fields: str) -> NewMessage:
    return new_message("T", number % 2, b"%05d" % number, unique=f"ID{number:06d}", more=more, **fields)


def shapes(random: Random, count: int) -> list[NewMessage]:
    """Messages with runs of zeros of any length at any place, in every property, and ordinary ones between them."""
    made = []
    for number in range(count):
        runs = "".join(
            "\0" * random.choice((1, 2, 7, 100, 511, 512, 513, 4096)) + "x" * random.randrange(40) for _ in range(2)
        )
        kind = random.randrange(6)
        fields = {"tags": "a\0b" if kind == 1 else "A", "keys": "k\0" if kind == 2 else f"k{number}"}
        made.append(awkward(number, {} if kind == 0 else {"name": runs if kind > 2 else "x"}, **fields))
    return made


def properties_of(message: NewMessage) -> dict[str, str]:
    return decode_properties(message.properties)


def check_content(disk: FaultyDisk, sent: dict[int, NewMessage], config: StoreConfig = CONFIG) -> list[int]:
    """The numbers that are stored; each with the properties that it was sent with."""
    records: list[Record] = check(disk, config).records
    for record in records:
        number = int(record.body[:5])
        assert record.properties == properties_of(sent[number]), f"message {number} is mangled"
    return [int(record.body[:5]) for record in records]


@pytest.mark.parametrize("shape", SHAPES, ids=list(SHAPES))
@pytest.mark.parametrize("shift", [0, 1, 255])
async def test_after_a_kill_messages_with_zeros_in_their_properties_are_all_there(shape: str, shift: int) -> None:
    disk = memory_disk()
    sent = {number: awkward(number, SHAPES[shape] if number in (3, 4) else {"p": "x" * shift}) for number in range(9)}
    async with killed_store(disk, CONFIG) as store:
        for message in sent.values():
            assert store.put(message).status is PutStatus.PUT_OK
    found = disk.after_kill()
    async with open_store(found, CONFIG) as store:
        assert store.recovered.cut_bytes == 0
    assert check_content(found, sent) == list(range(9))


async def live(disk: FaultyDisk, messages: list[NewMessage], *, flushes: bool = True) -> tuple[int, int]:
    """Store the messages until the power goes; how many were acknowledged, and how many of them as durable."""
    stored = synced = 0
    try:
        async with open_store(disk, CONFIG, clock=ManualClock()) as store:
            for number, message in enumerate(messages):
                if store.put(message).status is not PutStatus.PUT_OK:
                    break
                stored = number + 1
                if flushes and number % 2:
                    await store.flush()
                    synced = stored
                if number == len(messages) // 2:
                    await store.checkpoint()
                    synced = stored
    except PowerLost:
        pass
    return stored, synced


@pytest.mark.parametrize("seed", range(4))
async def test_a_kill_or_a_power_cut_at_any_disk_call_keeps_what_it_should_and_mangles_nothing(seed: int) -> None:
    messages = shapes(Random(seed), 8)
    sent = dict(enumerate(messages))
    counting = memory_disk()
    await live(counting, messages)
    for crash_at in range(seed % 2, len(counting.calls), 2):
        disk = memory_disk(crash_at=crash_at)
        stored, synced = await live(disk, messages)
        killed = disk.after_kill()
        cut = disk.after_power_loss(seed * 1000 + crash_at)
        for survivor, least in ((killed, stored), (cut, synced)):
            async with open_store(survivor, CONFIG):
                pass
            numbers = check_content(survivor, sent)
            assert numbers == list(range(len(numbers))), crash_at
            assert len(numbers) >= least, (crash_at, survivor is killed)


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_flushed_in_the_life_before_a_kill_survives_a_power_cut_in_the_next(seed: int) -> None:
    """The vouchers of the first life may be in the page cache only: the next one makes them durable with the log."""
    messages = shapes(Random(seed), 6)
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        for message in messages[:5]:
            store.put(message)
    disk = disk.for_next_process()
    async with killed_store(disk, CONFIG) as store:
        store.put(messages[5])
        await store.flush()
    survivor = disk.after_power_loss(seed)
    async with open_store(survivor, CONFIG):
        pass
    assert check_content(survivor, dict(enumerate(messages))) == list(range(6))


async def test_batches_delayed_and_transactional_messages_with_zeros_survive_a_kill() -> None:
    disk = memory_disk()
    config = store_config(commit_log_file_bytes=1 << 16)
    zeros = {"name": "z" + "\0" * 600}
    async with killed_store(disk, config) as store:
        put_batch(store, [awkward(number, zeros) for number in (0, 2, 4)])
        store.put(new_message("SCHEDULE_TOPIC_XXXX", 2, b"00006", more=zeros | {"DELAY": "3"}))
        for kind in (TransactionType.PREPARED, TransactionType.COMMIT, TransactionType.ROLLBACK):
            store.put(awkward(8, zeros, sys_flag=kind, prepared_transaction_offset=7))  # type: ignore[arg-type]
        end = store.log.max_offset
    found = disk.after_kill()
    async with open_store(found, config) as store:
        assert store.log.max_offset == end
    assert len(check(found, config).records) == 7


async def test_what_waited_in_the_transient_pool_is_vouched_for_when_it_is_written() -> None:
    config = store_config(commit_log_file_bytes=1 << 16, transient_pool_enable=True)
    disk = memory_disk()
    sent = {number: awkward(number, {"name": "\0" * 600}) for number in range(4)}
    async with killed_store(disk, config) as store:
        for message in sent.values():
            store.put(message)
        await store.flush()
    survivor = disk.after_power_loss()
    async with open_store(survivor, config):
        pass
    assert check_content(survivor, sent, config) == [0, 1, 2, 3]


# ------------------------------------------------------------------------------------------------------ slaves' copies


async def master_log(messages: list[NewMessage]) -> tuple[bytes, list[int]]:
    """The log of a master with these messages, and where each of them ends."""
    disk = memory_disk()
    ends = []
    async with killed_store(disk, CONFIG) as store:
        for message in messages:
            store.put(message)
            ends.append(int(store.log.max_offset))
    return disk.after_kill().read(ROOT / "commitlog" / ("0" * 20))[: ends[-1]], ends


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), cuts=st.sets(st.integers(1, 20_000), max_size=12), dropped_at=st.integers(0, 12))
def test_a_copy_cut_into_any_pieces_keeps_what_it_has_synced(seed: int, cuts: set[int], dropped_at: int) -> None:
    asyncio.run(_copies(seed, cuts, dropped_at))


async def _copies(seed: int, cuts: set[int], dropped_at: int) -> None:
    messages = shapes(Random(seed), 6)
    data, ends = await master_log(messages)
    config = store_config(commit_log_file_bytes=1 << 16, broker_role=BrokerRole.SLAVE)
    disk = memory_disk()
    random = Random(seed)
    synced = written = 0
    async with killed_store(disk, config) as store:
        copy = LogCopy(store, disk)
        bounds = sorted({0, len(data)} | {cut % len(data) for cut in cuts})
        pieces = list(pairwise(bounds))
        at = 0
        while at < len(data):
            end = next(last for _, last in pieces if last > at)
            copy.append(at, [data[at:end]])
            copy.dispatch()
            at = end
            if len(cuts) and at == bounds[min(dropped_at, len(bounds) - 1)] and at < len(data):
                await copy.drop_unfinished()  # the connection was lost
                at = copy.end
                dropped_at = len(bounds)
            if random.random() < 0.2:
                await store.checkpoint()
            if random.random() < 0.3:
                await store.flush()
                synced = int(store.log.whole_offset)
            written = int(store.log.whole_offset)
    for survivor, least in ((disk.after_kill(), written), (disk.after_power_loss(seed), synced)):
        async with open_store(survivor, config):
            pass
        numbers = check_content(survivor, dict(enumerate(messages)), config)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= sum(1 for end in ends if end <= least)


async def test_a_copy_whose_last_record_was_dropped_goes_on_through_checkpoints() -> None:
    """The entry for what stays is written when nothing else is to be synced; a closed file is not synced later."""
    data, ends = await master_log(shapes(Random(3), 4))
    config = store_config(commit_log_file_bytes=1 << 16, broker_role=BrokerRole.SLAVE)
    disk = memory_disk()
    async with open_store(disk, config) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[: ends[1] + 30]])
        copy.dispatch()
        await store.flush()
        await copy.drop_unfinished()
        for _ in range(3):
            await store.checkpoint()
        copy.append(ends[1], [data[ends[1] :]])
        copy.dispatch()
        await store.flush()
        assert store.flushed_offset == len(data)
    assert len(check(disk, config).records) == 4


SLAVE = store_config(commit_log_file_bytes=1 << 16, broker_role=BrokerRole.SLAVE)


async def copied_in_part() -> tuple[list[NewMessage], bytes, int]:
    """The log of a master, and where its second last record ends, the only one with zeros in its properties."""
    messages = [awkward(number, {"name": "a\0b\0c"} if number == 4 else {}) for number in range(6)]
    data, ends = await master_log(messages)
    return messages, data, ends[4]


async def start_and_crash(disk: FaultyDisk, config: StoreConfig, *, crash_at: int | None = None) -> int:
    """A process that ends at this disk call of its start, or when it has started; how many calls there were."""
    disk.crash_at = crash_at
    try:
        async with open_store(disk, config):
            calls = len(disk.calls)
            disk.cut_power()
    except PowerLost:
        pass
    return calls if crash_at is None else crash_at


async def test_what_a_copy_has_synced_survives_a_start_that_cuts_off_the_rest_of_its_piece() -> None:
    """The entry for the piece matches no more once the beginning of the next record is cut off."""
    messages, data, whole = await copied_in_part()
    disk = memory_disk()
    async with killed_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[: whole + 60]])
        copy.dispatch()
        await store.log.flush(copy.end)
        disk.unlink(ROOT / "flushed")  # which need not be durable
    probe = disk.after_kill()
    calls = await start_and_crash(probe, SLAVE)
    assert probe.count("truncate", "*/commitlog/*") == 1, "the start cuts the log"
    for crash_at in range(calls + 1):
        first = disk.after_kill()
        await start_and_crash(first, SLAVE, crash_at=crash_at)
        for found in (first.after_kill(), first.after_power_loss(), first.after_power_loss(crash_at)):
            async with open_store(found, SLAVE) as store:
                assert store.log.max_offset == whole, crash_at
            assert check_content(found, dict(enumerate(messages)), SLAVE) == list(range(5))


@pytest.mark.parametrize("is_closing", [False, True], ids=["dropped", "closed"])
async def test_what_a_copy_has_synced_survives_when_the_rest_of_its_piece_is_dropped(is_closing: bool) -> None:
    messages, data, whole = await copied_in_part()
    for seed in range(30):
        disk = memory_disk()
        async with killed_store(disk, SLAVE) as store:
            copy = LogCopy(store, disk)
            copy.append(0, [data[: whole + 60]])
            copy.dispatch()
            await store.flush()
            await (copy.close() if is_closing else copy.drop_unfinished())
            assert copy.end == whole
            await store.flush()
        found = disk.after_power_loss(seed)
        async with open_store(found, SLAVE) as store:
            assert store.log.max_offset == whole, seed
        assert check_content(found, dict(enumerate(messages)), SLAVE) == list(range(5))


async def test_what_a_copy_has_synced_survives_when_the_rest_is_dropped_during_a_checkpoint() -> None:
    """The checkpoint has begun another file of entries, which knows nothing of the piece, and is not durable yet."""
    _, data, whole = await copied_in_part()
    for seed in range(30):
        disk = memory_disk()
        async with killed_store(disk, SLAVE) as store:
            copy = LogCopy(store, disk)
            copy.append(0, [data[: whole + 60]])
            copy.dispatch()
            await store.flush()
            store.log.begin_vouchers()
            await copy.drop_unfinished()
        async with open_store(disk.after_power_loss(seed), SLAVE) as store:
            assert store.log.max_offset == whole, seed


@pytest.mark.parametrize("seed", range(20))
async def test_a_copy_keeps_what_it_has_through_many_lives(seed: int) -> None:
    """After a kill all that had come whole is there, after a power cut all of that which was synced."""
    random = Random(seed)
    data, ends = await master_log(shapes(random, 12))
    disk, least, synced = memory_disk(), 0, 0
    for _ in range(8):
        async with killed_store(disk, SLAVE) as store:
            copy = LogCopy(store, disk)
            assert copy.end >= max((end for end in ends if end <= least), default=0)
            synced = min(synced, copy.end)
            for step in random.choices(("append", "drop", "flush", "checkpoint"), (6, 1, 2, 1), k=6):
                if step == "append" and copy.end < len(data):
                    copy.append(copy.end, [data[copy.end : copy.end + random.randrange(1, 4000)]])
                    copy.dispatch()
                elif step == "drop":
                    await copy.drop_unfinished()
                elif step != "append":
                    await (store.flush() if step == "flush" else store.checkpoint())
                    synced = copy.end
            synced, written = min(synced, copy.end), copy.end
        is_killed = random.random() < 0.5
        least = written if is_killed else synced
        disk = disk.for_next_process() if is_killed else disk.after_power_loss(random.randrange(1000))


async def test_nothing_is_dropped_of_a_copy_that_cannot_be_vouched_for() -> None:
    _, data, whole = await copied_in_part()
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[: whole + 60]])
        copy.dispatch()
        disk.fail("pwrite", path="*/vouchers/*", error=errno.ENOSPC)
        with pytest.raises(DiskFull):
            await copy.drop_unfinished()
        assert copy.end == whole + 60
        disk.fail("fdatasync", path="*/vouchers/*")
        with pytest.raises(FlushFailed):
            await copy.drop_unfinished()
        await copy.close()
        assert copy.end == whole + 60, "the next start cuts it off"
    async with open_store(disk, SLAVE) as store:
        assert store.log.max_offset == whole


async def test_a_copy_is_closed_in_order_on_a_full_disk() -> None:
    _, data, whole = await copied_in_part()
    disk = memory_disk()
    async with open_store(disk, SLAVE) as store:
        copy = LogCopy(store, disk)
        copy.append(0, [data[: whole + 60]])
        copy.dispatch()
        disk.fail("pwrite", path="*/vouchers/*", error=errno.ENOSPC)
        await copy.close()
        assert copy.end == whole
    async with open_store(disk, SLAVE) as store:
        assert store.recovered.was_clean
        assert store.log.max_offset == whole


async def test_after_a_start_that_was_cut_off_at_any_disk_call_the_next_one_succeeds() -> None:
    messages = [awkward(number, {"name": "\0" * 600}) for number in range(3)]
    disk = await written_and_killed(messages)
    for crash_at in range(await start_and_crash(disk.after_kill(), CONFIG)):
        first = disk.after_kill()
        await start_and_crash(first, CONFIG, crash_at=crash_at)
        for survivor in (first.after_kill(), first.after_power_loss(), first.after_power_loss(crash_at)):
            async with open_store(survivor, CONFIG) as store:
                assert store.recovered.cut_bytes == 0, crash_at
            assert check_content(survivor, dict(enumerate(messages))) == [0, 1, 2]


# ------------------------------------------------------------------------------------------------------ who was here


def leave_as_apache_does(disk: FaultyDisk) -> None:
    """What Apache's broker or an older version has done to a store of ours when it ends."""
    lock = disk.lock(ROOT / "lock")
    mark = lock.read_mark()
    lock.write_mark(b"lock" + mark[4:])
    lock.release()


def take_vouchers_away(disk: FaultyDisk) -> None:
    for name in disk.list(ROOT / "vouchers"):
        disk.unlink(ROOT / "vouchers" / name)


async def written_and_killed(messages: list[NewMessage], disk: FaultyDisk | None = None) -> FaultyDisk:
    disk = disk or memory_disk()
    async with killed_store(disk, CONFIG) as store:
        for message in messages:
            store.put(message)
    return disk.after_kill()


@pytest.mark.parametrize("spoil", [leave_as_apache_does, take_vouchers_away])
async def test_zeros_are_believed_without_vouchers_only_where_somebody_else_wrote(
    spoil: Callable[[FaultyDisk], None],
) -> None:
    messages = [awkward(number, {"name": "\0" * 600}) for number in range(4)]
    disk = await written_and_killed(messages)
    take_vouchers_away(disk)
    spoil(disk)
    async with open_store(disk, CONFIG) as store:
        assert (store.recovered.cut_bytes == 0) == (spoil is leave_as_apache_does)


async def test_what_somebody_else_wrote_stays_believed_in_the_lives_that_follow() -> None:
    messages = [awkward(number, {"name": "\0" * 600}) for number in range(7)]
    disk = await written_and_killed(messages[:3])
    take_vouchers_away(disk)
    leave_as_apache_does(disk)
    for number in range(3, 6):  # each is killed; none of them writes a checkpoint
        disk = await written_and_killed([messages[number]], disk)
    async with open_store(disk, CONFIG):
        pass
    assert check_content(disk, dict(enumerate(messages))) == list(range(6))


async def test_a_start_that_is_cut_off_leaves_the_mark_of_whoever_was_here() -> None:
    messages = [awkward(number, {"name": "\0" * 600}) for number in range(3)]
    disk = await written_and_killed(messages)
    take_vouchers_away(disk)
    leave_as_apache_does(disk)
    probe = disk.after_kill()
    async with killed_store(probe, CONFIG):
        calls = len(probe.calls)
    for crash_at in range(calls):
        first = disk.after_kill()
        first.crash_at = crash_at
        try:
            async with open_store(first, CONFIG):
                raise PowerLost
        except PowerLost:
            pass
        for survivor in (first.after_kill(), first.after_power_loss(crash_at)):
            async with open_store(survivor, CONFIG):
                pass
            assert check_content(survivor, dict(enumerate(messages))) == [0, 1, 2], crash_at


async def test_vouchers_are_dropped_at_a_checkpoint_and_cost_ordinary_messages_nothing() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        store.put(awkward(0, {"name": "x"}))
        await store.flush()
        assert disk.list(ROOT / "vouchers") == []
        store.put(awkward(1, {"name": "\0"}))
        await store.flush()
        assert len(disk.list(ROOT / "vouchers")) == 1
        await store.checkpoint()
        assert disk.list(ROOT / "vouchers") == []
        store.put(awkward(2, {"name": "\0"}))
        store.put(awkward(3, {"name": "\0"}))
        assert len(disk.list(ROOT / "vouchers")) == 1
    assert disk.list(ROOT / "vouchers") == []
    assert not disk.exists(ROOT / "owner.json")


async def test_a_voucher_is_durable_before_its_message_is() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        store.put(awkward(0, {"name": "\0"}))
        before = len(disk.calls)
        await store.flush()
        synced = [call.path.parent.name for call in disk.calls[before:] if call.operation == "fdatasync"]
        assert synced[:2] == ["vouchers", "commitlog"]


async def test_a_message_whose_voucher_cannot_be_written_is_refused() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        disk.fail("pwrite", path="*/vouchers/*")
        assert store.put(awkward(0, {"name": "\0"})).status is not PutStatus.PUT_OK
        assert store.put(awkward(2, {"name": "\0"})).status is PutStatus.PUT_OK
        assert store.log.max_offset > 0
    sent = {0: awkward(0, {"name": "\0"}), 2: awkward(2, {"name": "\0"})}
    assert check_content(disk, sent) == [2]
