"""The page about `Admin`: its code runs, and its table has every member and method."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Awaitable

from skyrocketmq import Admin, Message
from tests.admin.test_blocking import FOR_PARTS_ONLY
from tests.admin.test_groups import consuming
from tests.client.cluster import Cluster, until
from tests.docs_code import ROOT, python_blocks

PAGE = ROOT / "docs" / "admin-api.md"


async def test_the_code_of_the_page_runs(cluster: Cluster, admin: Admin) -> None:
    cluster.create_topic("Orders")
    async with consuming(cluster, "billing", "Orders") as handled:
        await admin.messages.send(Message("Orders", b"first"))
        await until(lambda: handled)
    blocks = [block.replace("localhost:9876", cluster.namesrv) for block in python_blocks(PAGE)]
    assert len(blocks) == 6
    for block in blocks:
        code = compile(block, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            result: Awaitable[object] = eval(code, {})
            await result
        else:
            await asyncio.to_thread(exec, code, {})


async def test_the_table_has_every_method(cluster: Cluster, admin: Admin) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    told = {member: set(re.findall(r"`(\w+)`", asks + does)) for member, asks, does in rows if hasattr(Admin, member)}
    for member, names in told.items():
        part = type(getattr(admin, member))
        public = {name for name, _ in inspect.getmembers(part) if not name.startswith("_")} - FOR_PARTS_ONLY
        assert names == public, member
    assert len(told) == 11
