"""docs/configuration.md lists every key as it is declared."""

from __future__ import annotations

from pathlib import Path

from skyrocketmq.config import EMBEDDED_DEFAULTS, BrokerConfig, NamesrvConfig
from skyrocketmq.config.fields import keys_of
from skyrocketmq.config.printing import default_text, key_tables

DOCUMENT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


def test_the_tables_of_keys_are_those_of_the_code() -> None:
    tables = key_tables([NamesrvConfig, BrokerConfig])
    assert DOCUMENT.endswith(tables), "print them anew with: python -m skyrocketmq.config"


def test_every_key_stands_in_the_document_with_its_default() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]
    for kind in (NamesrvConfig, BrokerConfig):
        for key in keys_of(kind):
            row = next(row for row in rows if f"`{key.name}`" in row)
            assert f"| {default_text(key)} |" in row


def test_the_embedded_defaults_are_documented() -> None:
    for name, text in EMBEDDED_DEFAULTS.items():
        assert f"`{name}={text}`" in DOCUMENT
