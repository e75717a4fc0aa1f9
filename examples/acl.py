"""Accounts: who may send and who may read. It starts a small cluster of its own, whose broker checks signatures.

    python examples/acl.py

It prints:

    order-service may send: True
    report-service may not: True
    a stranger may not: True
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from skyrocketmq import Credentials, Message, Producer, SendStatus
from skyrocketmq.embedded import Embedded, EmbeddedOptions
from skyrocketmq.errors import MQError

TOPIC = "ExampleOrders"
ACCOUNTS = f"""
accounts:
  - accessKey: order-service
    secretKey: a-secret-of-orders
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [{TOPIC}=PUB]
  - accessKey: report-service
    secretKey: a-secret-of-reports
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms: [{TOPIC}=SUB]
"""


async def may_send(namesrv: str, credentials: Credentials | None) -> bool:
    try:
        async with Producer("example-acl", namesrv=namesrv, credentials=credentials) as producer:
            return (await producer.send(Message(TOPIC, b"order"))).status is SendStatus.SEND_OK
    except MQError:  # it says which right is missing
        return False


async def main(directory: Path) -> None:
    (directory / "conf").mkdir()
    (directory / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(directory)}
    options = EmbeddedOptions(namesrv_port=0, broker_port=0, settings=settings)
    async with Embedded.open(directory / "data", options) as cluster:
        namesrv = cluster.namesrv_address
        orders = Credentials("order-service", "a-secret-of-orders")
        reports = Credentials("report-service", "a-secret-of-reports")
        print("order-service may send:", await may_send(namesrv, orders))
        print("report-service may not:", not await may_send(namesrv, reports))
        print("a stranger may not:", not await may_send(namesrv, None))


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
