from __future__ import annotations

import pytest

from tests.interop import toolchain


def test_without_a_jdk_and_a_way_to_install_one_the_reason_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(toolchain.Unavailable, match=r"need a JDK .* and Maven; install the packages"):
        toolchain.prepare()
