"""The `skyrocketmq` command: arguments in, text out; no rule of the system lives here.

Read `main` first (the commands and how errors end), then a command such as `namesrv`; `run` is the life of a server
process from its start to its signals, `logging_setup` where its log goes and `log_text` what may stand in it, `options`
what several commands take.

Exit codes: 0 done or stopped as asked, 1 something failed and one line on standard error says what, 2 wrong usage.
"""

from __future__ import annotations

__all__: list[str] = []
