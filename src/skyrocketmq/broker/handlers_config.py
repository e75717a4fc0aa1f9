"""Requests about the broker's configuration: reading it, and changing keys while it runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from skyrocketmq.broker.access_rules import ADMIN
from skyrocketmq.broker.answers import refusal
from skyrocketmq.config import BrokerConfig, ConfigHolder, read_requested_properties, write_properties
from skyrocketmq.errors import ConfigError
from skyrocketmq.model import DataVersion
from skyrocketmq.net import Request, answers
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_admin import GetBrokerConfigAnswer
from skyrocketmq.wire.headers_codec import NoFields

__all__ = ["ConfigHandlers"]

logger = logging.getLogger(__name__)

NAME_SERVER_KEYS: Final = ("namesrvAddr", "rocketmq.namesrv.addr")


class ConfigHandlers:
    """The answers, from the holder of the configuration."""

    def __init__(self, config: ConfigHolder[BrokerConfig]) -> None:
        self._config = config

    @answers(RequestCode.UPDATE_BROKER_CONFIG, body="lines", needs=ADMIN)
    async def update_config(self, request: Request[NoFields]) -> Frame:
        """Set some keys, as lines of `key=value`; all of them or none are taken.

        The remark names the keys that wait for the next start.
        """
        try:
            changes = read_requested_properties(request.frame.body)
            self._check_name_servers(changes)
            changed = await self._config.update(changes)
        except ConfigError as error:
            raise refusal(ResponseCode.SYSTEM_ERROR, f"nothing was changed: {error}") from error
        except OSError as error:
            remark = f"nothing was changed, because the configuration could not be written to its file: {error}"
            raise refusal(ResponseCode.SYSTEM_ERROR, remark) from error
        logger.info("configuration updated", extra={"keys": sorted(changed), "by": request.connection.peer})
        return request.frame.reply(remark=self._config.pending_text())

    def _check_name_servers(self, changes: Mapping[str, str]) -> None:
        """With accounts, whoever may not sign must not be able to make the broker sign for him, at a server of his."""
        current = self._config.current
        addresses = ";".join(current.namesrv_addresses)
        if current.acl_enable and any(changes.get(name, addresses) != addresses for name in NAME_SERVER_KEYS):
            raise ConfigError("namesrvAddr is not changed by a request while aclEnable is true: set it in the file")

    @answers(RequestCode.GET_BROKER_CONFIG, answer="lines", needs=ADMIN)
    def get_config(self, request: Request[NoFields]) -> tuple[GetBrokerConfigAnswer, bytes]:
        """Every key that is in effect, as lines of `key=value`."""
        version = DataVersion(timestamp=self._config.version.timestamp_ms, counter=self._config.version.counter)
        answer = GetBrokerConfigAnswer(version=encode_body(version).decode())
        return answer, write_properties(self._config.as_properties())
