"""Words: the source says things as one would say them aloud, and the glossary leads to where they live.

A phrase below has a plainer form: "Apache RocketMQ" for the family, "after" for a position, "behind" for lag alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "skyrocketmq"

DONE = [
    "access", "admin", "background.py", "blocking", "cli", "client", "config", "embedded.py", "errors.py", "filters",
    "ha", "loop_thread.py", "loop_watch.py", "model", "nameserver", "net", "ports",
]  # fmt: skip

PHRASES = {
    r"\bthe family\b|\bof the family\b|\bRocketMQ family\b": "say Apache RocketMQ, Apache's brokers, Apache's clients",
    r"\bwhoever\b": "name the one who does it",
    r"\b(one|ones|copy|text|what) that (is|are) none\b": "say what it is not",
    r"\b(that|it) is told\b": "logged, answered, sent: say which",
    r"(?<!far )(?<!farther )(?<!is )\bbehind (a|an|the|it|its|them|this|what|one)\b": "say after, unless it is lag",
}


def text_of(path: Path) -> str:
    """With the lines of a sentence joined: a phrase may be broken anywhere."""
    return re.sub(r"\s*\n[\s#]*", " ", path.read_text())


@pytest.mark.parametrize("part", DONE)
def test_the_source_says_it_plainly(part: str) -> None:
    paths = sorted((PACKAGE / part).rglob("*.py")) if (PACKAGE / part).is_dir() else [PACKAGE / part]
    assert paths
    found = [
        f"{path.relative_to(PACKAGE)}: ...{text[max(0, match.start() - 40) : match.end() + 20]}...: {better}"
        for path in paths
        for text in [text_of(path)]
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase, text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


def glossary_rows() -> list[tuple[str, str, str]]:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("| ")]
    return [(word, meaning, modules) for word, meaning, modules in rows if word != "word"]


def test_the_glossary_leads_to_modules_that_exist() -> None:
    rows = glossary_rows()
    assert len(rows) > 25
    for word, meaning, modules in rows:
        assert meaning.endswith("."), f"{word}: a sentence"
        names = re.findall(r"`([a-z_]+)\.([a-z_]+)`", modules)
        assert names, f"{word}: where does it live?"
        for part, module in names:
            assert list((PACKAGE / part).rglob(f"{module}.py")), f"{word}: there is no {part}.{module}"


def test_no_word_of_the_glossary_is_explained_twice() -> None:
    words = [word for word, _, _ in glossary_rows()]
    assert len(words) == len(set(words))
