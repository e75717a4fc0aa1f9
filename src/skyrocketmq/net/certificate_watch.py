"""Certificates that are renewed while a server runs: new connections get the new ones.

Files are compared by their modification times. A renewal that cannot be used (half written, key and certificate that do
not belong together) is reported once and leaves the certificates of before in use.
"""

from __future__ import annotations

import logging
from pathlib import Path

from skyrocketmq.errors import ConfigError
from skyrocketmq.net.tls import ServerTls, TlsMode
from skyrocketmq.ports import Disk

__all__ = ["CertificateWatch"]

logger = logging.getLogger(__name__)


class CertificateWatch:
    """Looks at a server's TLS files when `check` is called; `paths` is empty where there is nothing to watch."""

    def __init__(self, tls: ServerTls, disk: Disk) -> None:
        named = (tls.certificate_path, tls.key_path, tls.trust_path)
        self.paths: tuple[Path, ...] = ()
        if tls.mode is not TlsMode.DISABLED:
            self.paths = tuple(path for path in named if path is not None)
        self._tls = tls
        self._disk = disk
        self._seen = self._modified()

    def check(self) -> None:
        modified = self._modified()
        if modified == self._seen:
            return
        self._seen = modified
        try:
            self._tls.load()
        except ConfigError as error:
            logger.warning("new certificates cannot be used", extra={"cause": str(error)})
        else:
            logger.info("certificates renewed", extra={"paths": ", ".join(map(str, self.paths))})

    def _modified(self) -> tuple[int, ...]:
        return tuple(self._disk.modified_ms(path) if self._disk.exists(path) else -1 for path in self.paths)
