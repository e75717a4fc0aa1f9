"""Who may ask: accounts, the files that keep them, the addresses that need none, and the check of signatures.

`addresses` and `accounts` turn text into values that answer questions; `files` keeps them; `book` is what a server
holds while it runs. What a request needs of its account is the servers' own matter: handlers declare it in the words of
`broker.access_rules` and `nameserver.access`.
"""

from __future__ import annotations

from skyrocketmq.access.accounts import Account, Permission
from skyrocketmq.access.book import WATCH_INTERVAL_S, AccountBook

__all__ = ["WATCH_INTERVAL_S", "Account", "AccountBook", "Permission"]
