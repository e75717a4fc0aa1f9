"""Which form of the hot modules runs, and that both forms belong together."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skyrocketmq import hot
from skyrocketmq.hot import layout
from skyrocketmq.hot.form import Unusable, compiled_modules, compiled_sources, load_compiled
from tests.hot.forms import FOLDER, compiled_form, find_compiled, forms_of, plain_form

SOURCES = [pytest.param(path, id=path.stem) for path in compiled_sources(FOLDER)]


def exported(path: Path) -> list[str]:
    """What a module offers, read from its source: the source of a compiled form cannot be imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise AssertionError(f"{path.name} has no __all__")


def names_from_layout(path: Path) -> set[str]:
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "skyrocketmq.hot.layout"
        for alias in node.names
    }


def test_every_compiled_module_has_a_plain_one_that_the_package_offers() -> None:
    assert {path.stem.removeprefix("_") for path in compiled_sources(FOLDER)} == set(hot.PLAIN_MODULES)


@pytest.mark.parametrize("path", SOURCES)
def test_both_forms_offer_the_same_names(path: Path) -> None:
    names = exported(path)
    assert names == exported(FOLDER / path.name.removeprefix("_"))
    assert set(names) <= set(hot.__all__)
    assert path.with_suffix(".pxd").exists()


@pytest.mark.parametrize("path", SOURCES)
def test_numbers_of_the_layout_are_numbers_of_c(path: Path) -> None:
    """A name that the .pxd does not declare would be looked up, and converted, each time it is used."""
    declared = set(re.findall(r"^cdef \w+ (\w+)$", path.with_suffix(".pxd").read_text(encoding="utf-8"), re.MULTILINE))
    assert names_from_layout(path) <= declared


@pytest.mark.parametrize("name", [path.stem.removeprefix("_") for path in compiled_sources(FOLDER)])
def test_the_package_offers_one_form_of_all(name: str) -> None:
    form = compiled_form(name) if hot.is_compiled else plain_form(name)
    for each in plain_form(name).__all__:
        assert getattr(hot, each) is getattr(form, each)


def test_which_form_runs_is_told() -> None:
    assert hot.is_compiled == (not hot.why_plain)
    assert hot.description() == ("compiled" if hot.is_compiled else f"plain Python: {hot.why_plain}")


def said_by(path: str | Path, **environment: str) -> str:
    """What a new process, which finds the package there, says of its form."""
    code = "from skyrocketmq import hot; print(hot.description())"
    env = {**os.environ, "PYTHONPATH": str(path), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=30
    ).stdout.strip()


def test_an_environment_can_ask_for_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_by(FOLDER.parents[1], SKYROCKETMQ_PLAIN="1") == "plain Python: SKYROCKETMQ_PLAIN is set"
    monkeypatch.setenv("SKYROCKETMQ_PLAIN", "1")
    with pytest.raises(Unusable, match="SKYROCKETMQ_PLAIN"):
        load_compiled(FOLDER)


class TestCompiledModules:
    """Copies of the package whose compiled modules are of different kinds."""

    @pytest.fixture
    def package(self, tmp_path: Path) -> Path:
        if isinstance(found := find_compiled(), str):
            pytest.skip(found)
        package = tmp_path / "skyrocketmq"
        shutil.copytree(FOLDER, package / "hot", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("__init__.py", "errors.py"):
            shutil.copy(FOLDER.parent / name, package)
        return package

    def test_they_run_if_they_were_made_of_these_sources(self, package: Path) -> None:
        assert said_by(package.parent, SKYROCKETMQ_PLAIN="0") == "compiled"

    @pytest.mark.parametrize("name", ["_cells.py", "_cells.pxd", "layout.py", "big_endian.pxd"])
    def test_they_do_not_run_once_a_source_has_changed(self, package: Path, name: str) -> None:
        with (package / "hot" / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        said = said_by(package.parent, SKYROCKETMQ_PLAIN="0")
        assert re.fullmatch("plain Python: _[a-z_]+ was compiled from other sources: .* `make compile`", said)

    def test_none_runs_if_one_is_missing(self, package: Path) -> None:
        next((package / "hot").glob("_cells.*.so")).unlink()
        said = said_by(package.parent, SKYROCKETMQ_PLAIN="0")
        assert said == "plain Python: nothing was compiled when it was installed"

    def test_none_runs_if_one_cannot_be_loaded(self, package: Path) -> None:
        next((package / "hot").glob("_cells.*.so")).write_bytes(b"no library")
        assert said_by(package.parent, SKYROCKETMQ_PLAIN="0").startswith("plain Python: _cells cannot be loaded: ")

    def test_without_sources_they_cannot_be_compared(self, package: Path) -> None:
        for path in compiled_sources(package / "hot"):
            path.unlink()
        with pytest.raises(Unusable, match="not there"):
            compiled_modules(package / "hot")


def test_the_parameters_of_a_test_are_both_forms() -> None:
    assert [param.id for param in forms_of("cells")] == ["plain", "compiled"]


def test_a_layout_holds_constants_only() -> None:
    values = {name: value for name, value in vars(layout).items() if name.isupper()}
    assert values
    assert {type(value) for value in values.values()} <= {int, str, bytes, tuple}
