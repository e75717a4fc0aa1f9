"""Who a broker is, as it tells the name servers and shows to administrators."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.model import MASTER_ID

__all__ = ["BrokerIdentity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """A master and its slaves share a name; each has an id and addresses of its own.

    The addresses are those that others are told: the configured host, and the port that is really listened on.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID
