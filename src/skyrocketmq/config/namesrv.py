"""The name server's keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyrocketmq.config.fields import Section, conf, part
from skyrocketmq.config.machine import user_home
from skyrocketmq.config.remoting import ServerConfig
from skyrocketmq.config.tls import TlsConfig

__all__ = ["NAMESRV_PORT", "NamesrvConfig"]

NAMESRV_PORT = 9876


@dataclass(frozen=True, kw_only=True, slots=True)
class NamesrvConfig(Section, title="name server"):
    """Everything a name server is told at its start."""

    rocketmq_home: Path | None = conf(
        "rocketmqHome",
        default=None,
        default_text="$ROCKETMQ_HOME",
        doc="the installation; not needed here",
        aliases=("rocketmq.home.dir",),
        environment=("ROCKETMQ_HOME",),
    )
    kv_config_path: Path = conf(
        "kvConfigPath",
        factory=lambda: user_home() / "namesrv" / "kvConfig.json",
        default_text="~/namesrv/kvConfig.json",
        doc="file that keeps the key-value config",
    )
    config_store_path: Path = conf(
        "configStorePath",
        factory=lambda: user_home() / "namesrv" / "namesrv.properties",
        default_text="the -c file, else ~/namesrv/namesrv.properties",
        doc="file that a change of the configuration at run time is written to",
    )
    product_env_name: str = conf(
        "productEnvName", default="center", doc="environment that is asked for unknown topics with clusterTest"
    )
    cluster_test: bool = conf(
        "clusterTest",
        default=False,
        doc="a name server for tests of a cluster: asks the product environment for unknown topics",
    )
    address_server_domain: str = conf(
        "rocketmq.namesrv.domain",
        default="jmenv.tbsite.net",
        doc="host of the address server that knows the product environment; port 8080 unless it names another",
    )
    address_server_sub_group: str = conf(
        "rocketmq.namesrv.domain.subgroup", default="nsaddr", doc="last part of the address server's path"
    )
    order_message_enable: bool = conf(
        "orderMessageEnable", default=False, doc="add the order configuration of a topic to its route", changeable=True
    )
    server: ServerConfig = part(lambda: ServerConfig(listen_port=NAMESRV_PORT))
    tls: TlsConfig = part(TlsConfig)
