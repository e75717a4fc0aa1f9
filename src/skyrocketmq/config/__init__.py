"""Typed configuration from files, environment and command line, with Apache's keys.

Read in this order: `fields` (how a class of configuration is declared), then the classes themselves (`namesrv`,
`broker`, `store`, `replication`, `remoting`, `tls`, and `ignored` for Apache's keys without effect here), `loading`
(sources and what happens to mistakes in them), `holder` (changes at run time), `printing` (`-p` and the tables of
docs/configuration.md). `properties_text` is Java's file format, `machine` what the machine contributes to the defaults.

No rule of a broker or a store lives here: a key says what may be set, the part that reads it says what it does.
"""

from __future__ import annotations

from skyrocketmq.config.broker import BROKER_PORT, BrokerConfig
from skyrocketmq.config.holder import ConfigChange, ConfigHolder, ConfigVersion, as_properties
from skyrocketmq.config.limits import LimitsConfig
from skyrocketmq.config.loading import (
    KeyTable,
    Loaded,
    Source,
    load_broker_config,
    load_namesrv_config,
    load_tls_config,
    split_assignments,
)
from skyrocketmq.config.machine import host_name, local_address, user_home
from skyrocketmq.config.namesrv import DEFAULT_NAMESRV, NAMESRV_PORT, NamesrvConfig
from skyrocketmq.config.printing import format_config
from skyrocketmq.config.properties_text import read_properties, read_requested_properties, write_properties
from skyrocketmq.config.remoting import ClientConfig, ServerConfig
from skyrocketmq.config.replication import ReplicationPortConfig
from skyrocketmq.config.store import EMBEDDED_DEFAULTS, BrokerRole, FlushDiskType, StoreConfig
from skyrocketmq.config.tls import ClientAuth, TlsConfig, TlsMode

__all__ = [
    "BROKER_PORT",
    "DEFAULT_NAMESRV",
    "EMBEDDED_DEFAULTS",
    "NAMESRV_PORT",
    "BrokerConfig",
    "BrokerRole",
    "ClientAuth",
    "ClientConfig",
    "ConfigChange",
    "ConfigHolder",
    "ConfigVersion",
    "FlushDiskType",
    "KeyTable",
    "LimitsConfig",
    "Loaded",
    "NamesrvConfig",
    "ReplicationPortConfig",
    "ServerConfig",
    "Source",
    "StoreConfig",
    "TlsConfig",
    "TlsMode",
    "as_properties",
    "format_config",
    "host_name",
    "load_broker_config",
    "load_namesrv_config",
    "load_tls_config",
    "local_address",
    "read_properties",
    "read_requested_properties",
    "split_assignments",
    "user_home",
    "write_properties",
]
