"""Certificates that are renewed while a server runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from skyrocketmq.errors import NetError
from skyrocketmq.net import ClientAuth, ClientTls, Server, ServerTls, TlsMode
from skyrocketmq.net.certificate_watch import CertificateWatch
from skyrocketmq.ports import LocalDisk
from tests.net.support import LOOPBACK, EchoService
from tests.net.test_tls import Certificates, ask, issue


@pytest.fixture
def old(tmp_path: Path) -> Certificates:
    (tmp_path / "old").mkdir()
    return issue(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Certificates:
    (tmp_path / "new").mkdir()
    return issue(tmp_path / "new")


def put(path: Path, data: bytes, *, at: int) -> None:
    """Write a file as if it were changed at this second: file systems' own times may be too coarse for a test."""
    path.write_bytes(data)
    os.utime(path, (at, at))


async def test_new_connections_get_a_renewed_certificate_and_old_ones_go_on(
    old: Certificates, new: Certificates, tmp_path: Path
) -> None:
    certificate = tmp_path / "server.pem"
    put(certificate, old.server.read_bytes(), at=1_000)
    tls = ServerTls(certificate_path=certificate)
    disk = LocalDisk()
    trusts_old, trusts_new = (ClientTls(verify=True, trust_path=files.authority) for files in (old, new))
    try:
        async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=tls) as server:
            watch = CertificateWatch(tls, disk)
            assert watch.paths == (certificate,)
            watch.check()
            assert await ask(server, trusts_old) == (b"hello", True)
            put(certificate, new.server.read_bytes(), at=2_000)
            assert await ask(server, trusts_old) == (b"hello", True)  # nobody has looked yet
            watch.check()
            assert await ask(server, trusts_new) == (b"hello", True)
            with pytest.raises(NetError, match="CERTIFICATE_VERIFY_FAILED"):
                await ask(server, trusts_old)
    finally:
        disk.close()


@pytest.mark.parametrize("broken", [b"", b"half a certif", None], ids=["empty", "cut off", "gone"])
async def test_a_renewal_that_cannot_be_used_is_reported_once_and_changes_nothing(
    old: Certificates, new: Certificates, tmp_path: Path, broken: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = tmp_path / "server.pem"
    put(certificate, old.server.read_bytes(), at=1_000)
    tls = ServerTls(certificate_path=certificate)
    disk = LocalDisk()
    checks = ClientTls(verify=True, trust_path=old.authority)
    try:
        async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=tls) as server:
            watch = CertificateWatch(tls, disk)
            if broken is None:
                certificate.unlink()
            else:
                put(certificate, broken, at=2_000)
            with caplog.at_level(logging.WARNING, logger="skyrocketmq.net.certificate_watch"):
                for _ in range(3):
                    watch.check()
            assert [record.message for record in caplog.records] == ["new certificates cannot be used"]
            assert await ask(server, checks) == (b"hello", True)
            put(certificate, new.server.read_bytes(), at=3_000)
            watch.check()
            assert await ask(server, ClientTls(verify=True, trust_path=new.authority)) == (b"hello", True)
    finally:
        disk.close()


async def test_the_trusted_certificates_of_clients_are_renewed_too(
    old: Certificates, new: Certificates, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    put(trusted, old.authority.read_bytes(), at=1_000)
    tls = ServerTls(certificate_path=old.server, trust_path=trusted, client_auth=ClientAuth.REQUIRE)
    disk = LocalDisk()
    shows_new = ClientTls(verify=True, trust_path=old.authority, certificate_path=new.client)
    try:
        async with await Server.start(LOOPBACK, EchoService().dispatcher, tls=tls) as server:
            watch = CertificateWatch(tls, disk)
            with pytest.raises(NetError):
                await ask(server, shows_new)
            put(trusted, old.authority.read_bytes() + new.authority.read_bytes(), at=2_000)
            watch.check()
            assert await ask(server, shows_new) == (b"hello", True)
    finally:
        disk.close()


def test_there_is_nothing_to_watch_without_files_or_without_tls(old: Certificates) -> None:
    disk = LocalDisk()
    try:
        assert CertificateWatch(ServerTls(), disk).paths == ()
        disabled = ServerTls(mode=TlsMode.DISABLED, certificate_path=old.server)
        assert CertificateWatch(disabled, disk).paths == ()
    finally:
        disk.close()
