"""The keyword arguments that all clients take."""

from __future__ import annotations

import pytest

from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer


def test_an_option_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TypeError, match="there is no option credential; did you mean credentials"):
        Producer("orders", namesrv="localhost:9876", credential=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"there is no option offset_dir$"):
        PushConsumer("billing", namesrv="localhost:9876", offset_dir="x")  # type: ignore[call-arg]
