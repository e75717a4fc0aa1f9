"""Which keys hold secrets, by their names alone: for keys that a server does not know and has in its file anyway.

A file may serve two servers, and a key may be spelt wrongly: what stands under `brokerSecretKey` at a name server, or
under `tls.server.keypassword`, is as secret as where it counts. A word too many here hides a value that nobody uses.
"""

from __future__ import annotations

import re
from typing import Final

from skyrocketmq.config.broker import BrokerConfig
from skyrocketmq.config.fields import keys_of
from skyrocketmq.config.namesrv import NamesrvConfig

__all__ = ["has_secret_name"]

_WORDS: Final = re.compile(r"secret|passw|passphrase|token|credential|access[^a-z]*key", re.IGNORECASE)
_DECLARED: Final = frozenset(
    name.lower()
    for kind in (BrokerConfig, NamesrvConfig)
    for key in keys_of(kind)
    if key.declared.secret
    for name in key.names
)


def has_secret_name(name: str) -> bool:
    """Whether a key of this name, known here or not, may hold a secret."""
    return name.strip().lower() in _DECLARED or _WORDS.search(name) is not None
