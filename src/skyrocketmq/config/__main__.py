"""Print the tables of keys for docs/configuration.md: `python -m skyrocketmq.config`."""

from __future__ import annotations

from skyrocketmq.config.broker import BrokerConfig
from skyrocketmq.config.namesrv import NamesrvConfig
from skyrocketmq.config.printing import key_tables

if __name__ == "__main__":
    print(key_tables([NamesrvConfig, BrokerConfig]), end="")
