"""The name server's keys."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from skyrocketmq.config.fields import Section, conf, part
from skyrocketmq.config.machine import user_home
from skyrocketmq.config.remoting import ServerConfig
from skyrocketmq.config.tls import TlsConfig

__all__ = ["DEFAULT_NAMESRV", "NAMESRV_PORT", "NamesrvConfig"]

NAMESRV_PORT = 9876
DEFAULT_NAMESRV = f"127.0.0.1:{NAMESRV_PORT}"  # where `skyrocketmq up` is, and where clients look by default


@dataclass(frozen=True, kw_only=True, slots=True)
class NamesrvConfig(Section, title="name server"):
    """A name server's configuration at its start."""

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
        reserved=True,
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
    acl_enable: bool = conf(
        "aclEnable",
        default=False,
        doc="take changes, registrations among them, only if an administrator signs them or from a white address",
        reserved=True,
    )
    acl_file: Path = conf(
        "rocketmq.acl.plain.file",
        default=Path("conf/plain_acl.yml"),
        doc="accounts and permissions; a relative path is looked for in rocketmqHome and beside the config file",
    )
    changes_allowed_from: str = conf(
        "changesAllowedFrom",
        default="*",
        doc="ours: addresses from which changes are taken, registrations among them, joined by a comma",
        reserved=True,
    )
    allow_broker_takeover: bool = conf(
        "allowBrokerTakeover",
        default=False,
        doc="ours: without aclEnable, let a broker of another machine take a name that is in use, as at Apache",
        reserved=True,
    )
    brokers_per_connection_max: int = conf(
        "brokersPerConnectionMax",
        default=100,
        doc="ours: brokers that one connection registers, which is mostly one; more are refused",
        reserved=True,
        at_least=1,
    )
    server: ServerConfig = part(lambda: ServerConfig(listen_port=NAMESRV_PORT))
    tls: TlsConfig = part(TlsConfig)

    def settled(self, given: Collection[str]) -> tuple[NamesrvConfig, tuple[str, ...]]:
        """Apply the rules between keys; see `Section.settled`."""
        _, about_tls = self.tls.settled(given)
        return self, about_tls
