"""Groups whose members subscribe to different things: a warning for each, two figures, and an administrator's query.

`report` is called every few seconds. A difference that has lasted for the grace period
(inconsistentSubscriptionGraceMillis) is logged once; docs/consumer-groups.md says what to do about it.
"""

from __future__ import annotations

import logging

from skyrocketmq.broker.access_rules import ADMIN
from skyrocketmq.broker.subscription_differences import (
    GroupDifference,
    SubscriptionDifferences,
    differing_modes,
    differing_topics,
)
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.net import Connection, Request, answers
from skyrocketmq.ports import Clock
from skyrocketmq.wire.headers_clients import ConsumerGroupHeader
from skyrocketmq.wire.own_requests import (
    DifferenceReport,
    DifferingFilter,
    DifferingGroup,
    DifferingMember,
    DifferingMode,
    DifferingTopic,
    OwnRequestCode,
)

__all__ = ["DifferenceHandlers"]

logger = logging.getLogger(__name__)


class DifferenceHandlers:
    """The answer, from the table of differences, and what is said of them without being asked."""

    def __init__(
        self,
        *,
        config: ConfigHolder[BrokerConfig],
        differences: SubscriptionDifferences[Connection],
        clock: Clock,
    ) -> None:
        self._config = config
        self._differences = differences
        self._clock = clock

    def report(self) -> None:
        """Log the differences that have lasted."""
        grace_s = self._config.current.subscription_difference_grace_ms / 1000
        for difference in self._differences.take_due(now_s=self._clock.monotonic(), grace_s=grace_s):
            described = self._describe(difference)
            logger.warning(
                "members of a group subscribe to different things, messages are lost to some of them",
                extra={
                    "group": difference.group,
                    "topics": [topic.topic for topic in described.topics],
                    "modes": [mode.mode for mode in described.modes],
                    "clients": [member.client_id for member in difference.members],
                },
            )

    def figures(self) -> dict[str, str]:
        """For the runtime information."""
        return {
            "inconsistentSubscriptionGroups": str(self._differences.reported_group_count),
            "inconsistentSubscriptionTotal": str(self._differences.reported_count),
        }

    @answers(OwnRequestCode.GET_SUBSCRIPTION_DIFFERENCES, needs=ADMIN)
    def list_differences(self, request: Request[ConsumerGroupHeader]) -> DifferenceReport:
        """Groups whose members subscribe to different things; of one group, if the request names one."""
        group = request.header.consumer_group
        return DifferenceReport(
            broker_name=self._config.current.broker_name,
            groups=tuple(
                self._describe(difference)
                for difference in self._differences.all()
                if group is None or difference.group == group
            ),
            reported_total=self._differences.reported_count,
        )

    def _describe(self, difference: GroupDifference) -> DifferingGroup:
        return DifferingGroup(
            differs_for_ms=round((self._clock.monotonic() - difference.since_s) * 1000),
            group=difference.group,
            is_reported=difference.is_reported,
            members=tuple(
                DifferingMember(client_addr=member.address, client_id=member.client_id) for member in difference.members
            ),
            modes=tuple(
                DifferingMode(client_ids=tuple(clients), mode=mode)
                for mode, clients in differing_modes(difference.members).items()
            ),
            topics=tuple(
                DifferingTopic(
                    filters=tuple(
                        DifferingFilter(
                            client_ids=tuple(clients),
                            expression=wanted.expression if wanted else None,
                            expression_type=wanted.type if wanted else None,
                        )
                        for wanted, clients in filters.items()
                    ),
                    topic=topic,
                )
                for topic, filters in differing_topics(difference.members).items()
            ),
        )
