"""Who gets the log at the replication port, what a stranger gets, and what the port costs its broker."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from skyrocketmq.broker.replication_port import replication_port, slave_tls
from skyrocketmq.config import BrokerConfig, BrokerRole, ClientConfig, ReplicationPortConfig, TlsConfig, TlsMode
from skyrocketmq.errors import ConfigError
from skyrocketmq.ha import master as master_module
from skyrocketmq.net.tls import ServerTls
from skyrocketmq.wire.bodies_admin import AccountConfig
from skyrocketmq.wire.replication import encode_report
from skyrocketmq.wire.replication_greeting import (
    HELLO,
    Introduction,
    decode_challenge,
    encode_introduction,
    sign_introduction,
)
from tests.broker.accounts import ACL_FILE, ACL_PATH, SECRETS, signed
from tests.broker.requests import TOPIC, send_frame
from tests.broker.support import BROKER
from tests.ha.pair import Member, Pair, open_pair

ADMIN: dict[str, Any] = {"access_key": "the-admin", "secret_key": SECRETS["the-admin"]}
OWN: dict[str, Any] = {"access_key": "the-brokers", "secret_key": "brokers-secret"}
BIG = b"x" * 60_000
PATIENT = {"ha_heartbeat_interval_ms": 50, "ha_idle_timeout_ms": 60_000}


class Visitor:
    """Somebody at the replication port."""

    def __init__(self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pair = pair
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def hear(self, count: int = 1) -> bytes:
        return await self.pair.moving(self.reader.readexactly(count))

    async def shown_out(self) -> bytes:
        """All that was said to it, until the connection is closed."""
        try:
            return await self.pair.moving(self.reader.read())
        except ConnectionError:
            return b""

    async def is_still_here(self) -> bool:
        """For one that has heard everything so far."""
        await self.pair.pass_time()
        return not (self.reader.at_eof() or self.reader.exception())

    async def sign(
        self, account: str = "the-admin", *, secret: str | None = None, broker: str = BROKER
    ) -> Introduction:
        self.say(HELLO)
        challenge = decode_challenge(await self.hear(44))
        assert challenge is not None
        secret = SECRETS[account] if secret is None else secret
        introduction = sign_introduction(challenge, access_key=account, secret_key=secret, broker_name=broker)
        self.say(encode_introduction(introduction))
        return introduction


@asynccontextmanager
async def visit(member: Member, *, receive_bytes: int | None = None) -> AsyncIterator[Visitor]:
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", member.port + 1))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
    try:
        yield Visitor(member.pair, reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def guarded(*, text: str = ACL_FILE, **changes: Any) -> AsyncIterator[Pair]:
    """A master with accounts and one message, and no slave."""
    accounts: dict[str, Any] = {"acl_enable": True, "acl_file": ACL_PATH}
    async with open_pair(slaves=0, files={ACL_PATH: text}, **accounts, **changes) as pair:
        peer = await pair.master.connect()
        pair.master.broker.tables.topics.get_retry_topic("g", queue_count=1)
        await peer.ok(signed(send_frame("%RETRY%g", 0, body=b"secret"), "the-admin"))
        yield pair


def slaves_of(pair: Pair) -> dict[str, int]:
    return pair.master.broker.replication.replicas.slaves


# -------------------------------------------------------------------------------------------------------- with accounts


async def test_with_accounts_a_stranger_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with guarded() as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        assert await visitor.shown_out() == b""
        assert slaves_of(pair) == {}
    assert "brokerAccessKey" in next(record.reason for record in caplog.records if record.msg == "slave refused")  # type: ignore[attr-defined]  # an extra field


async def test_a_white_address_is_let_in_and_apaches_slaves_are_so() -> None:
    async with guarded(text=ACL_FILE.replace("10.9.8.*", "127.0.0.1")) as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        assert len(await visitor.hear(12 + 90)) == 102
        assert len(slaves_of(pair)) == 1


async def test_addresses_of_slaves_can_be_listed_apart_from_the_white_ones() -> None:
    port = ReplicationPortConfig(slave_addresses="127.0.0.1,10.1.*.*")
    async with guarded(replication_port=port) as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        await visitor.hear(12)
    port = ReplicationPortConfig(slave_addresses="10.1.*.*")
    text = ACL_FILE.replace("10.9.8.*", "127.0.0.1")
    async with guarded(text=text, replication_port=port) as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        assert await visitor.shown_out() == b""


async def test_a_slave_with_an_account_signs_at_both_ports_and_copies_log_and_tables() -> None:
    async with guarded() as pair:
        slave = await pair.add_slave(**ADMIN)
        await pair.caught_up()
        pair.assert_equal()
        versions = pair.master.broker.tables.topics
        await pair.until(lambda: slave.broker.tables.topics.data_version == versions.data_version)


@pytest.mark.parametrize(
    ("account", "secret", "broker"),
    [
        ("the-admin", "wrong-secret", BROKER),
        ("the-reader", None, BROKER),
        ("nobody-knows", "whatever", BROKER),
        ("the-admin", None, "another-broker"),
    ],
)
async def test_who_signs_wrongly_gets_nothing(account: str, secret: str | None, broker: str) -> None:
    async with guarded() as pair, visit(pair.master) as visitor:
        await visitor.sign(account, secret=secret, broker=broker)
        visitor.say(encode_report(0))
        assert await visitor.shown_out() == b""
        assert slaves_of(pair) == {}


async def test_a_signature_that_was_overheard_is_worth_nothing() -> None:
    async with guarded() as pair:
        async with visit(pair.master) as visitor:
            introduction = await visitor.sign()
            visitor.say(encode_report(0))
            await visitor.hear(12)
            async with visit(pair.master) as thief:
                thief.say(HELLO)
                await thief.hear(44)
                thief.say(encode_introduction(introduction) + encode_report(0))
                assert await thief.shown_out() == b""
        async with visit(pair.master) as thief:  # and without having been asked
            thief.say(encode_introduction(introduction) + encode_report(0))
            assert await thief.shown_out() == b""


async def test_who_does_not_sign_in_time_is_shown_out() -> None:
    async with guarded(store=PATIENT) as pair, visit(pair.master) as visitor:
        visitor.say(HELLO)
        await visitor.hear(44)
        await pair.pass_time(4.8)
        assert await visitor.is_still_here()
        await pair.pass_time(0.2)
        assert not await visitor.is_still_here()


async def test_strangers_who_say_nothing_do_not_keep_a_slave_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(master_module, "STRANGERS_MAX", 4)
    async with guarded() as pair, AsyncExitStack() as crowd:
        for _ in range(12):
            await crowd.enter_async_context(visit(pair.master))
        async with visit(pair.master) as slave:
            await slave.sign()
            slave.say(encode_report(0))
            await slave.hear(12)
            for _ in range(12):  # who has signed is a stranger no more
                await crowd.enter_async_context(visit(pair.master))
            await slave.hear(90)
            assert len(slaves_of(pair)) == 1
    assert len([record for record in caplog.records if "yet to report" in record.msg]) == 1


@pytest.mark.parametrize("change", ["deleted", "another secret", "no administrator"])
async def test_a_slave_goes_with_its_account(change: str) -> None:
    async with guarded(store=PATIENT) as pair, visit(pair.master) as visitor:
        await visitor.sign()
        visitor.say(encode_report(0))
        await pair.until(lambda: len(slaves_of(pair)) == 1)
        access = pair.master.broker.access
        assert access is not None
        account = AccountConfig(access_key="the-admin", secret_key=SECRETS["the-admin"], admin=True)
        await access.book.put_account(account)
        visitor.say(encode_report(0))
        await visitor.hear(12 + 90 + 2 * 12)
        assert slaves_of(pair), "nothing was changed"
        if change == "deleted":
            await access.book.delete_account("the-admin")
        elif change == "another secret":
            await access.book.put_account(structs.replace(account, secret_key="changed-secret"))
        else:
            await access.book.put_account(structs.replace(account, admin=False))
        await visitor.shown_out()
        assert not slaves_of(pair)


async def test_a_slave_goes_with_its_white_address() -> None:
    text = ACL_FILE.replace("10.9.8.*", "127.0.0.1")
    async with guarded(text=text, store=PATIENT) as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        await pair.until(lambda: len(slaves_of(pair)) == 1)
        access = pair.master.broker.access
        assert access is not None
        await access.book.put_white_addresses(["10.9.8.*"], None)
        await visitor.shown_out()
        assert not slaves_of(pair)


# ----------------------------------------------------------------------------------------------------- without accounts


async def test_a_signature_can_be_required_without_accounts_and_of_every_address() -> None:
    port = ReplicationPortConfig(signature_required=True, slave_addresses="127.0.0.1")
    async with open_pair(slaves=0, replication_port=port, **OWN) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(5)
        async with visit(pair.master) as visitor:
            visitor.say(encode_report(0))
            assert await visitor.shown_out() == b""
        await pair.add_slave(**OWN)
        await pair.caught_up()
        pair.assert_equal()


async def test_without_accounts_addresses_can_be_listed_too() -> None:
    port = ReplicationPortConfig(slave_addresses="10.1.*.*")
    async with open_pair(slaves=0, replication_port=port) as pair, visit(pair.master) as visitor:
        assert await visitor.shown_out() == b""


async def test_a_slave_that_offers_to_sign_follows_a_master_that_does_not_ask() -> None:
    """Apache's master takes -1 for a slave that is not ready, as HAConnection does: it sends once it hears a place."""
    heard = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said: list[int] = []
        while not said or said[-1] < 0:
            said.append(int.from_bytes(await reader.readexactly(8), "big", signed=True))
        if not heard.done():
            heard.set_result(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with open_pair(slaves=0) as pair:
        slave = Member(
            pair,
            broker_id=1,
            store={"broker_role": BrokerRole.SLAVE, "ha_master_address": address, "ha_newest_file_only": True},
            **OWN,
        )
        await slave.start()
        pair.slaves.append(slave)
        await pair.until(heard.done)
        assert heard.result() == [-1, 0]
    server.close()


# ------------------------------------------------------------------------------------------------------------------ TLS


async def test_where_tls_is_enforced_the_log_travels_inside_it_and_plain_slaves_are_refused() -> None:
    enforced = ReplicationPortConfig(tls_mode=TlsMode.ENFORCING)
    async with open_pair(slaves=0, replication_port=enforced) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(300, body=BIG[:20_000])
        async with visit(pair.master) as visitor:
            visitor.say(encode_report(0))
            assert await visitor.shown_out() == b""
        slave = await pair.add_slave(replication_port=ReplicationPortConfig(use_tls=True), **OWN)
        await pair.caught_up()
        pair.assert_equal()
        assert slave.broker.replication.is_following


async def test_a_port_without_tls_says_so_to_a_slave_that_wants_it(caplog: pytest.LogCaptureFixture) -> None:
    plain = ReplicationPortConfig(tls_mode=TlsMode.DISABLED)
    async with open_pair(slaves=0, replication_port=plain) as pair:
        slave = await pair.add_slave(replication_port=ReplicationPortConfig(use_tls=True))
        await pair.until(lambda: any("haTlsMode" in getattr(record, "reason", "") for record in caplog.records))
        assert not slave.broker.replication.is_following


def test_tls_of_the_port_is_that_of_the_broker_unless_its_own_keys_say_otherwise() -> None:
    def port(mode: TlsMode, own: TlsMode | None = None) -> TlsMode:
        config = BrokerConfig(tls=TlsConfig(server_mode=mode), replication_port=ReplicationPortConfig(tls_mode=own))
        return replication_port(config, None, ServerTls(mode=mode)).tls_mode

    assert port(TlsMode.ENFORCING) is TlsMode.ENFORCING
    assert port(TlsMode.ENFORCING, TlsMode.PERMISSIVE) is TlsMode.PERMISSIVE
    with pytest.raises(ConfigError, match=r"tls\.server\.mode"):
        port(TlsMode.DISABLED, TlsMode.ENFORCING)
    assert slave_tls(BrokerConfig(client=ClientConfig(use_tls=True))) is not None
    assert slave_tls(BrokerConfig()) is None
    config = BrokerConfig(client=ClientConfig(use_tls=True), replication_port=ReplicationPortConfig(use_tls=False))
    assert slave_tls(config) is None


def test_a_signature_that_nobody_could_make_is_not_required() -> None:
    config = BrokerConfig(replication_port=ReplicationPortConfig(signature_required=True))
    with pytest.raises(ConfigError, match="brokerAccessKey"):
        replication_port(config, None, ServerTls())


# --------------------------------------------------------------------------------------------------------- bogus slaves


async def test_there_is_a_limit_to_the_number_of_slaves(caplog: pytest.LogCaptureFixture) -> None:
    port = ReplicationPortConfig(slave_count_max=2)
    async with open_pair(slaves=1, replication_port=port) as pair, visit(pair.master) as second:
        second.say(encode_report(0))
        await pair.until(lambda: len(slaves_of(pair)) == 2)
        for _ in range(5):
            async with visit(pair.master) as third:
                assert await third.shown_out() == b""
        assert [record.levelno for record in caplog.records if "too many slaves" in record.msg] == [logging.ERROR]
        second.writer.transport.abort()
        await pair.until(lambda: len(slaves_of(pair)) == 1)
        async with visit(pair.master) as third:
            third.say(encode_report(0))
            await pair.until(lambda: len(slaves_of(pair)) == 2)


@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("said", [b"", HELLO[:3], encode_report(0)[:-1]])
async def test_who_says_nothing_keeps_no_slave_out(said: bytes, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as many as there may be slaves, nor more than there may be strangers; a crumb is nothing."""
    monkeypatch.setattr(master_module, "STRANGERS_MAX", 6)
    port = ReplicationPortConfig(slave_count_max=2)
    async with open_pair(slaves=0, replication_port=port, store=PATIENT) as pair, AsyncExitStack() as crowd:
        silent = [await crowd.enter_async_context(visit(pair.master)) for _ in range(count)]
        for visitor in silent:
            visitor.say(said)
        for _ in range(2):
            slave = await crowd.enter_async_context(visit(pair.master))
            slave.say(encode_report(0))
        await pair.until(lambda: len(slaves_of(pair)) == 2)
        gone = [not await visitor.is_still_here() for visitor in silent]
        assert gone == [True] * (count - min(count, 6 - 1)) + [False] * min(count, 6 - 1), "the oldest, and no more"
        silent[-1].say(encode_report(0)[len(said) :] if said != HELLO[:3] else HELLO[3:] + encode_report(0))
        await silent[-1].shown_out()
        assert len(slaves_of(pair)) == 2, "there is a limit of slaves all the same"


async def test_who_says_nothing_from_a_white_address_keeps_no_slave_out_either() -> None:
    text = ACL_FILE.replace("10.9.8.*", "127.0.0.1")
    port = ReplicationPortConfig(slave_count_max=2)
    async with guarded(text=text, replication_port=port, store=PATIENT) as pair, AsyncExitStack() as crowd:
        for _ in range(4):
            await crowd.enter_async_context(visit(pair.master))
        async with visit(pair.master) as slave:
            slave.say(encode_report(0))
            assert len(await slave.hear(12 + 90)) == 102


async def test_a_slave_that_speaks_and_does_not_read_is_cut_off() -> None:
    async with open_pair(slaves=0, store={"ha_idle_timeout_ms": 300, "ha_heartbeat_interval_ms": 50}) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(200, body=BIG)
        async with visit(pair.master, receive_bytes=4096) as visitor:
            visitor.say(encode_report(0))
            await pair.until(lambda: len(slaves_of(pair)) == 1)
            for _ in range(8):
                visitor.say(encode_report(0))
                await pair.pass_time()
            assert not slaves_of(pair)


async def test_a_slave_that_reads_slowly_is_heard_meanwhile() -> None:
    async with open_pair(slaves=0) as pair:
        await pair.master.make_topic()
        await pair.master.send_many(200, body=BIG)
        async with visit(pair.master, receive_bytes=4096) as visitor:
            visitor.say(encode_report(0))
            piece_bytes = int.from_bytes((await visitor.hear(12))[8:], "big")
            await visitor.hear(piece_bytes)
            assert max(each.transport.get_write_buffer_size() for each in pair.master.link.connections) > 512 << 10
            visitor.say(encode_report(piece_bytes))
            await pair.until(lambda: pair.master.broker.replication.replicas.acknowledged == piece_bytes, seconds=1)


async def test_crumbs_are_no_sign_of_life() -> None:
    times = {"ha_idle_timeout_ms": 300, "ha_heartbeat_interval_ms": 50}
    async with open_pair(slaves=0, store=times) as pair, visit(pair.master) as visitor:
        visitor.say(encode_report(0))
        await pair.until(lambda: len(slaves_of(pair)) == 1)
        for crumb in encode_report(0)[:-1]:
            visitor.say(bytes([crumb]))
            await pair.pass_time(0.1)
        assert not slaves_of(pair)


async def test_nobody_acknowledges_what_it_was_not_sent() -> None:
    async with open_pair(slaves=0, role=BrokerRole.SYNC_MASTER, store={"slave_timeout_ms": 300}) as pair:
        await pair.master.make_topic()
        peer = await pair.master.connect()
        for number in range(200):
            await peer.ask(send_frame(TOPIC, 0, body=BIG, opaque=number))
        replicas, log = pair.master.broker.replication.replicas, pair.master.store.log
        async with visit(pair.master, receive_bytes=4096) as visitor:
            visitor.say(encode_report(0))
            await pair.until(lambda: len(slaves_of(pair)) == 1)
            visitor.say(encode_report(int(log.max_offset)))
            await pair.until(lambda: not slaves_of(pair))
        assert replicas.acknowledged == 0
        assert (await peer.ask(send_frame(TOPIC, 0, opaque=999))).code == 11
