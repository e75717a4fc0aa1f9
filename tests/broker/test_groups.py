from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.model import DataVersion, SubscriptionGroupConfig
from skyrocketmq.testing import ManualClock
from tests.broker.support import holder


def table(**config: Any) -> GroupTable:
    clock = ManualClock()
    return GroupTable(holder(clock, **config), clock)


def test_a_new_broker_knows_the_groups_of_the_family() -> None:
    assert set(table().names()) == {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }


def test_an_unknown_group_is_made_with_the_defaults_on_its_first_use() -> None:
    groups = table()
    told: list[frozenset[str]] = []
    groups.listeners.append(told.append)
    assert groups.find("billing") is None
    created = groups.find_or_create("billing")
    assert created == SubscriptionGroupConfig(group_name="billing")
    assert groups.find_or_create("billing") is created
    assert told == [{"billing"}]
    assert groups.data_version.counter == 1


def test_without_automatic_creation_only_the_servers_own_groups_are_made() -> None:
    groups = table(auto_create_group=False)
    assert groups.find_or_create("billing") is None
    assert groups.find_or_create("CID_RMQ_SYS_TRANS") is not None
    assert groups.find("billing") is None


@pytest.mark.parametrize("name", ["", "a b", "a@b", "x" * 256])
def test_a_group_with_an_illegal_name_is_never_made(name: str) -> None:
    assert table().find_or_create(name) is None


def test_a_group_can_be_replaced_and_deleted() -> None:
    groups = table()
    groups.put(SubscriptionGroupConfig(group_name="billing", retry_max_times=3))
    found = groups.find("billing")
    assert found is not None
    assert found.retry_max_times == 3
    assert groups.delete("billing")
    assert not groups.delete("billing")
    assert groups.find("billing") is None
    assert groups.data_version.counter == 2


def test_a_restored_table_keeps_the_servers_own_groups() -> None:
    groups = table()
    groups.restore({"billing": SubscriptionGroupConfig(group_name="billing")}, DataVersion(5, 3))
    assert groups.find("billing") is not None
    assert groups.find("TOOLS_CONSUMER") is not None
    assert groups.data_version == DataVersion(5, 3)


def test_a_copy_of_another_table_holds_nothing_else() -> None:
    groups = table()
    told: list[frozenset[str]] = []
    groups.listeners.append(told.append)
    groups.replace_all({"billing": SubscriptionGroupConfig(group_name="billing")}, DataVersion(5, 3))
    assert groups.names() == ["billing"]
    assert groups.table() == {"billing": SubscriptionGroupConfig(group_name="billing")}
    assert "TOOLS_CONSUMER" in told[0]
