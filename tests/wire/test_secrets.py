"""Values that carry secrets do not show them: they end in logs and tracebacks."""

from __future__ import annotations

import pytest

from skyrocketmq.wire.bodies_admin import AccessConfig, AccountConfig
from skyrocketmq.wire.headers_admin import CreateAccessConfigHeader

ACCOUNT = AccountConfig(access_key="the-key", secret_key="hunter2")


@pytest.mark.parametrize(
    "value",
    [
        ACCOUNT,
        AccessConfig(plain_access_configs=[ACCOUNT]),
        CreateAccessConfigHeader(access_key="the-key", secret_key="hunter2"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_not_in_a_repr(value: object) -> None:
    assert "the-key" in repr(value)
    assert "hunter2" not in repr(value) + str(value)
