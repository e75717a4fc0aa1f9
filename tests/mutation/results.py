"""What came out, kept between runs: a verdict holds as long as neither its function nor, for a survivor, any of its
tests has changed."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

from tests.mutation.judging import KILLS, Trial, Verdict


class Results:
    """Verdicts by module, function and mutant, in a file that is written after each."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._files: dict[str, bytes] = {}
        self._kept: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}

    def find(self, trial: Trial, source: str) -> Verdict | None:
        kept = self._kept.get(self._key(trial, source))
        if kept is None or (kept["verdict"] not in KILLS and kept["tests"] != self._tests_digest(trial)):
            return None  # a test that was added since may find it
        return Verdict(kept["verdict"])

    def put(self, trial: Trial, source: str, verdict: Verdict) -> None:
        self._kept[self._key(trial, source)] = {"verdict": verdict.value, "tests": self._tests_digest(trial)}
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._kept))
        temporary.replace(self._path)

    def _key(self, trial: Trial, source: str) -> str:
        assert trial.mutant is not None
        return f"{trial.module}:{trial.mutant.name}:{function_digest(source, trial.mutant.function)}"

    def _tests_digest(self, trial: Trial) -> str:
        """Of the tests that are asked, by their names and the files they stand in."""
        digest = hashlib.sha256(" ".join(trial.tests).encode())
        for name in sorted({test.partition("::")[0] for test in trial.tests}):
            if name not in self._files:
                self._files[name] = (self._root / name).read_bytes()
            digest.update(self._files[name])
        return digest.hexdigest()[:12]


def function_digest(source: str, qualified: str) -> str:
    """Of a function as it stands, without its comments and its place."""
    node: ast.AST = ast.parse(source)
    for name in qualified.split("."):
        node = next(child for child in ast.walk(node) if getattr(child, "name", None) == name)
    return hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:12]
