"""`python -m skyrocketmq` is the `skyrocketmq` command."""

from __future__ import annotations

from skyrocketmq.cli.main import main

main()
