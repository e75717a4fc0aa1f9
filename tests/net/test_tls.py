"""TLS on the port of the plain protocol."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from skyrocketmq.errors import ConfigError, NetError
from skyrocketmq.net import Client, ClientAuth, ClientOptions, ClientTls, Server, ServerOptions, ServerTls, TlsMode
from skyrocketmq.net.tls import TlsSession
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Encoding, Frame
from tests.net.support import BIG, ECHO, LOOPBACK, SLOW, EchoService, address_of, raw_peer, until

MIB = 1024 * 1024


@dataclass(frozen=True)
class Certificates:
    """Files of one authority, as an operator would have them."""

    authority: Path
    server: Path
    client: Path


def issue(directory: Path) -> Certificates:
    authority = trustme.CA()
    made = Certificates(directory / "ca.pem", directory / "server.pem", directory / "client.pem")
    authority.cert_pem.write_to_path(str(made.authority))
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(made.server))
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(str(made.client))
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of an authority that nobody here trusts."""
    return issue(tmp_path_factory.mktemp("strangers"))


async def ask(server: Server, tls: ClientTls | None, body: bytes = b"hello") -> tuple[bytes, bool]:
    """What an echo brings back, and whether it was encrypted."""
    async with Client(tls=tls) as client:
        reply = await client.request(address_of(server), Frame(ECHO, body=body), 3)
        connection = client.find(address_of(server))
        assert connection is not None
        return reply.body, connection.is_encrypted


@pytest.mark.parametrize("mode", [*TlsMode, None], ids=str)
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
async def test_the_mode_decides_which_connections_are_served(mode: TlsMode | None, encrypted: bool) -> None:
    server_tls = None if mode is None else ServerTls(mode=mode)
    served = {(None, False), (TlsMode.DISABLED, False), (TlsMode.PERMISSIVE, False), (TlsMode.PERMISSIVE, True)}
    served |= {(TlsMode.ENFORCING, True)}
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
        client_tls = ClientTls(verify=False) if encrypted else None
        if (mode, encrypted) in served:
            assert await ask(server, client_tls) == (b"hello", encrypted)
        else:
            with pytest.raises(NetError):
                await ask(server, client_tls)


async def test_plain_and_encrypted_clients_share_a_permissive_port() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=ServerTls()) as server:
        outcomes = await asyncio.gather(
            *[ask(server, ClientTls(verify=False) if n % 2 else None, b"%d" % n) for n in range(10)]
        )
    assert outcomes == [(b"%d" % n, n % 2 == 1) for n in range(10)]


async def test_large_frames_and_many_small_ones_pass_through_tls() -> None:
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher, tls=ServerTls()) as server,
        Client(tls=ClientTls(verify=False)) as client,
    ):
        large = client.request(address_of(server), Frame(BIG, ext={"size": str(15 * MIB)}), 10)
        body = bytes(range(256)) * 16 * 1024
        mirrored = client.request(address_of(server), Frame(ECHO, body=body), 10)
        small = [client.request(address_of(server), Frame(ECHO, body=b"%d" % n), 10) for n in range(500)]
        replies = await asyncio.gather(large, mirrored, *small)
    assert len(replies[0].body) == 15 * MIB
    assert replies[1].body == body
    assert [reply.body for reply in replies[2:]] == [b"%d" % n for n in range(500)]


async def test_answers_that_come_later_are_encrypted_too() -> None:
    service = EchoService()
    async with (
        await Server.start(LOOPBACK, service.dispatcher, tls=ServerTls()) as server,
        Client(tls=ClientTls(verify=False)) as client,
    ):
        frame = Frame(SLOW, body=b"later", encoding=Encoding.BINARY)
        request = asyncio.create_task(client.request(address_of(server), frame, 5))
        await until(lambda: service.slow_count == 1)
        service.released.set()
        assert (await request).body == b"later"


async def test_a_server_uses_its_files_and_a_client_that_checks_trusts_their_authority(files: Certificates) -> None:
    server_tls = ServerTls(certificate_path=files.server)
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
        for check_hostname in (False, True):
            client_tls = ClientTls(verify=True, trust_path=files.authority, check_hostname=check_hostname)
            assert await ask(server, client_tls) == (b"hello", True)


async def test_a_client_that_checks_refuses_what_it_cannot_trust(files: Certificates, strangers: Certificates) -> None:
    checks = ClientTls(verify=True, trust_path=files.authority)
    for server_tls in (ServerTls(), ServerTls(certificate_path=strangers.server)):
        async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
            with pytest.raises(NetError, match="CERTIFICATE_VERIFY_FAILED"):
                await ask(server, checks)


async def test_a_client_that_checks_names_refuses_the_wrong_one(files: Certificates, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    elsewhere = tmp_path / "elsewhere.pem"
    authority.issue_cert("elsewhere.example.org").private_key_and_cert_chain_pem.write_to_path(str(elsewhere))
    async with await Server.start(
        LOOPBACK, EchoService().dispatcher, tls=ServerTls(certificate_path=elsewhere)
    ) as server:
        trusts = ClientTls(trust_path=tmp_path / "ca.pem", check_hostname=False)
        assert await ask(server, trusts) == (b"hello", True)
        with pytest.raises(NetError, match=r"127\.0\.0\.1"):
            await ask(server, ClientTls(trust_path=tmp_path / "ca.pem"))


async def test_a_client_that_is_told_nothing_checks_and_says_how_not_to() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=ServerTls()) as server:
        with pytest.raises(NetError, match=r"CERTIFICATE_VERIFY_FAILED.*ClientTls\(verify=False\)"):
            await ask(server, ClientTls())
        assert await ask(server, ClientTls(verify=False)) == (b"hello", True)


@pytest.mark.parametrize("auth", list(ClientAuth))
@pytest.mark.parametrize("shows", ["none", "ours", "a stranger's"])
async def test_client_certificates_are_asked_for_as_configured(
    files: Certificates, strangers: Certificates, auth: ClientAuth, shows: str
) -> None:
    server_tls = ServerTls(certificate_path=files.server, client_auth=auth, trust_path=files.authority)
    certificate = {"none": None, "ours": files.client, "a stranger's": strangers.client}[shows]
    client_tls = ClientTls(verify=True, trust_path=files.authority, certificate_path=certificate)
    admitted = {
        ClientAuth.NONE: {"none", "ours", "a stranger's"},
        ClientAuth.OPTIONAL: {"none", "ours"},
        ClientAuth.REQUIRE: {"ours"},
    }[auth]
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
        if shows in admitted:
            assert await ask(server, client_tls) == (b"hello", True)
        else:
            with pytest.raises(NetError):
                await ask(server, client_tls)


async def test_changed_files_are_taken_up_for_new_connections(
    files: Certificates, strangers: Certificates, tmp_path: Path
) -> None:
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(strangers.server.read_bytes())
    server_tls = ServerTls(certificate_path=certificate)
    checks = ClientTls(verify=True, trust_path=files.authority)
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
        with pytest.raises(NetError):
            await ask(server, checks)
        certificate.write_bytes(files.server.read_bytes())
        server_tls.load()
        assert await ask(server, checks) == (b"hello", True)


async def test_files_that_cannot_be_used_stop_the_server_from_starting(files: Certificates, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    wrong = [
        ServerTls(certificate_path=tmp_path / "missing.pem"),
        ServerTls(certificate_path=broken),
        ServerTls(certificate_path=files.server, client_auth=ClientAuth.REQUIRE),
        ServerTls(client_auth=ClientAuth.REQUIRE),
        ServerTls(certificate_path=files.server, client_auth=ClientAuth.OPTIONAL, trust_path=broken),
    ]
    for tls in wrong:
        with pytest.raises(ConfigError):
            await Server.start(LOOPBACK, EchoService().dispatcher, tls=tls)
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        async with Client(tls=ClientTls(verify=True, trust_path=tmp_path / "missing.pem")) as client:
            await client.request("127.0.0.1:9", Frame(ECHO), 3)


async def test_an_encrypted_key_is_read_with_its_password_and_never_asked_for(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key_path, certificate_path = tmp_path / "key.pem", tmp_path / "certificate.pem"
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    certificate_path.write_bytes(issued.cert_chain_pems[0].bytes())
    locked = ServerTls(certificate_path=certificate_path, key_path=key_path, key_password="secret")
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=locked) as server:
        assert await ask(server, ClientTls(verify=False)) == (b"hello", True)
    assert "secret" not in repr(locked)
    with pytest.raises(ConfigError):
        ServerTls(certificate_path=certificate_path, key_path=key_path).load()


async def test_a_handshake_that_stalls_is_closed() -> None:
    clock = ManualClock()
    server = await Server.start(LOOPBACK, EchoService().dispatcher, tls=ServerTls(), clock=clock)
    async with server, raw_peer(server) as peer:
        hello = TlsSession(ssl.create_default_context(), server_side=False, hostname="localhost")
        hello.receive(b"")
        peer.send_bytes(hello.take_output()[:50])
        await until(lambda: any(connection.is_encrypted for connection in server.connections))
        await clock.advance(10)
        assert await peer.is_hung_up()


async def test_garbage_after_a_tls_hello_closes_that_connection_only() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=ServerTls()) as server:
        async with raw_peer(server) as bad:
            bad.send_bytes(b"\x16\x03\x01\x00\x05hello" * 100)
            assert await bad.is_hung_up()
        assert await ask(server, ClientTls(verify=False)) == (b"hello", True)


async def test_a_client_gives_up_on_a_server_that_does_not_speak_tls() -> None:
    clock = ManualClock()
    mute = await asyncio.start_server(lambda reader, writer: writer.close(), *LOOPBACK)
    port = mute.sockets[0].getsockname()[1]
    async with Client(tls=ClientTls(verify=False), clock=clock, options=ClientOptions(connect_timeout_s=3)) as client:
        with pytest.raises(NetError):
            await client.request(f"127.0.0.1:{port}", Frame(ECHO), 10)
    mute.close()
    await mute.wait_closed()


async def test_a_client_leaves_a_server_that_does_not_answer_its_hello() -> None:
    clock = ManualClock()
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            heard.put_nowait(data)
        heard.put_nowait(b"")
        writer.close()

    server = await asyncio.start_server(mute, *LOOPBACK)
    port = server.sockets[0].getsockname()[1]
    async with Client(tls=ClientTls(verify=False), clock=clock, options=ClientOptions(connect_timeout_s=3)) as client:
        request = asyncio.create_task(client.request(f"127.0.0.1:{port}", Frame(ECHO), 60))
        assert (await heard.get())[0] == 0x16
        await clock.advance(3)
        with pytest.raises(NetError, match="within 3 s"):
            await request
        assert await asyncio.wait_for(heard.get(), 3) == b""  # and not only once the handshake's own limit is reached
    server.close()
    await server.wait_closed()


async def test_a_server_without_a_certificate_of_its_own_may_ask_for_its_clients(files: Certificates) -> None:
    server_tls = ServerTls(client_auth=ClientAuth.REQUIRE, trust_path=files.authority)
    async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=server_tls) as server:
        assert await ask(server, ClientTls(verify=False, certificate_path=files.client)) == (b"hello", True)
        with pytest.raises(NetError):
            await ask(server, ClientTls(verify=False))


async def test_a_slow_reader_behind_tls_is_held_back_too() -> None:
    options = ServerOptions(write_high_bytes=256 * 1024, write_low_bytes=64 * 1024)
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher, tls=ServerTls(), options=options) as server:
        client_context = ClientTls(verify=False).context()
        reader, writer = await asyncio.open_connection(*address_of(server).split(":"), ssl=client_context)
        from skyrocketmq.wire.frames import encode_frame

        for number in range(200):
            writer.write(encode_frame(Frame(BIG, opaque=number, ext={"size": str(256 * 1024)})))
        await until(lambda: any(connection.is_paused for connection in server.connections))
        (connection,) = server.connections
        await asyncio.sleep(0.05)
        assert connection.unsent_bytes < 3 * MIB
        received = 0
        while received < 200 * 256 * 1024:
            received += len(await reader.read(1 * MIB))
        writer.close()
        try:
            await writer.wait_closed()
        except (ssl.SSLError, ConnectionError):
            pass


def test_a_clients_side_travels_to_other_processes_also_after_it_was_used(files: Certificates) -> None:
    side = ClientTls(verify=True, trust_path=files.authority, certificate_path=files.client)
    side.context()
    copy = pickle.loads(pickle.dumps(side))
    assert copy == side
    assert copy.context() is not side.context()


def test_cryptography_is_imported_only_when_a_certificate_is_made() -> None:
    code = "import sys, skyrocketmq.net; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
