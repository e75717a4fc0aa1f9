"""The consumer groups that the broker knows: the table behind subscriptionGroup.json.

Rule 1: a group is known before it may consume. One that nobody created is made on its first use where that is allowed;
the servers' own groups always are.
Rule 2: this is memory alone; the `listeners` write the file and drop what was cached.
Rule 3: whether members of the group are connected is not known here, see `clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import DataVersion, SubscriptionGroupConfig
from skyrocketmq.model.names import SYSTEM_GROUPS, check_group, is_system_group
from skyrocketmq.ports import Clock

__all__ = ["GroupListener", "GroupTable"]

GroupListener = Callable[[frozenset[str]], object]  # called with the names of the groups that changed


class GroupTable:
    """The groups of one broker, by name."""

    def __init__(self, config: ConfigHolder[BrokerConfig], clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self.data_version = DataVersion(timestamp=clock.now_ms(), counter=0)
        self.listeners: list[GroupListener] = []

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The group as it is known; a dict look-up. Most callers want `find_or_create`."""
        return self._groups.get(group)

    def find_or_create(self, group: str) -> SubscriptionGroupConfig | None:
        """The group, made with the defaults if it is new; `None` if it may not be made, or has no legal name."""
        known = self._groups.get(group)
        if known is None and (known := self.new_group(group)) is not None:
            self.put(known)
        return known

    def new_group(self, group: str) -> SubscriptionGroupConfig | None:
        """What a group of this name would be, with the defaults; `None` if it may not be made. Changes nothing."""
        if not self._config.current.auto_create_group and not is_system_group(group):
            return None
        try:
            check_group(group)
        except IllegalArgument:
            return None
        return SubscriptionGroupConfig(group_name=group)

    def names(self) -> list[str]:
        return list(self._groups)

    def table(self) -> dict[str, SubscriptionGroupConfig]:
        """A copy of the table, safe to write from another thread."""
        return dict(self._groups)

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create or replace a group."""
        self._groups[group.group_name] = group
        self._changed(group.group_name)

    def delete(self, group: str) -> bool:
        """Drop a group; false if there is none. Its offsets are another table's."""
        if self._groups.pop(group, None) is None:
            return False
        self._changed(group)
        return True

    def restore(self, table: Mapping[str, SubscriptionGroupConfig], data_version: DataVersion) -> None:
        """Begin with what the file holds; the servers' own groups stay."""
        self._groups.update(table)
        self.data_version = data_version

    def replace_all(self, table: Mapping[str, SubscriptionGroupConfig], data_version: DataVersion) -> None:
        """Become a copy of another broker's table, version and all."""
        names = frozenset(self._groups) | frozenset(table)
        self._groups = dict(table)
        self.data_version = data_version
        self._tell(names)

    def _changed(self, group: str) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        self._tell(frozenset({group}))

    def _tell(self, names: frozenset[str]) -> None:
        for listener in self.listeners:
            listener(names)
