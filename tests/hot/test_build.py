"""`setup.py`: what is installed with a C compiler, without one, and where compiling is required or not wanted.

The project that is built here has one small module, so that a build takes two seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("setuptools", minversion="77")
pytest.importorskip("Cython")

ROOT = Path(__file__).parents[2]
HOT = Path("src/skyrocketmq/hot")
NO_COMPILER = {"CC": "/bin/false"}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / HOT).mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", HOT / "form.py", HOT / "layout.py"):
        shutil.copy(ROOT / name, project / name)
    for folder in (HOT, HOT.parent):
        (project / folder / "__init__.py").touch()
    (project / HOT / "small.py").write_text("def size() -> int:\n    return 20\n", encoding="utf-8")
    text = "from skyrocketmq.hot.layout import CELL_BYTES\n\n\ndef size():\n    return CELL_BYTES\n"
    (project / HOT / "_small.py").write_text(text, encoding="utf-8")
    (project / HOT / "_small.pxd").write_text("cdef Py_ssize_t CELL_BYTES\n", encoding="utf-8")
    return project


def build(project: Path, hook: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Let setuptools build as pip would."""
    code = f"from setuptools import build_meta; print(build_meta.{hook}('dist'))"
    env = {name: value for name, value in os.environ.items() if name != "SKYROCKETMQ_COMPILE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={**env, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def built_wheel(project: Path, **environment: str) -> Path:
    done = build(project, "build_wheel", **environment)
    assert done.returncode == 0, done.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    return wheel


def libraries(wheel: Path) -> list[str]:
    with ZipFile(wheel) as content:
        return [name for name in content.namelist() if name.endswith((".so", ".pyd"))]


def form_in(folder: Path) -> str:
    """What a process that finds the package in this folder would run."""
    code = (
        "from pathlib import Path; from skyrocketmq.hot.form import Unusable, compiled_modules\n"
        "try:\n    print(compiled_modules(Path('skyrocketmq/hot'))['small'].size())\n"
        "except Unusable as error:\n    print(error)"
    )
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_with_a_compiler_the_wheel_is_one_for_this_system(project: Path, tmp_path: Path) -> None:
    wheel = built_wheel(project)
    assert not wheel.name.endswith("none-any.whl")
    assert len(libraries(wheel)) == 1
    with ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
        assert "skyrocketmq/hot/_small.pxd" in content.namelist()  # the digest is made of it, too
        assert not [name for name in content.namelist() if name.endswith(".c")]
    assert form_in(tmp_path / "installed") == "20"
    assert not list((project / "src").rglob("*.so")), "a wheel leaves nothing among the sources"


def test_without_a_compiler_the_wheel_is_plain_and_the_build_says_so(project: Path, tmp_path: Path) -> None:
    done = build(project, "build_wheel", **NO_COMPILER)
    assert done.returncode == 0, done.stderr
    assert "nothing is compiled, plain Python will run instead" in done.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    assert libraries(wheel) == []
    with ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
    assert form_in(tmp_path / "installed") == "nothing was compiled when it was installed"


def test_who_wants_nothing_compiled_gets_a_wheel_for_every_system(project: Path) -> None:
    assert built_wheel(project, SKYROCKETMQ_COMPILE="skip").name.endswith("-py3-none-any.whl")


@pytest.mark.parametrize("missing", ["compiler", "Cython"])
def test_where_it_is_required_a_build_without_it_fails(project: Path, tmp_path: Path, missing: str) -> None:
    environment = dict(NO_COMPILER)
    if missing == "Cython":
        (tmp_path / "hidden" / "Cython").mkdir(parents=True)
        (tmp_path / "hidden" / "Cython" / "__init__.py").write_text("raise ImportError('hidden')", encoding="utf-8")
        environment = {"PYTHONPATH": str(tmp_path / "hidden")}
        assert libraries(built_wheel(project, **environment)) == []
    assert build(project, "build_wheel", SKYROCKETMQ_COMPILE="require", **environment).returncode != 0


def test_an_unknown_wish_is_refused(project: Path) -> None:
    done = build(project, "build_wheel", SKYROCKETMQ_COMPILE="always")
    assert done.returncode != 0
    assert "it can be require, skip, or empty" in done.stderr


def test_an_editable_install_compiles_beside_the_sources(project: Path) -> None:
    done = build(project, "build_editable", SKYROCKETMQ_COMPILE="require")
    assert done.returncode == 0, done.stderr
    assert form_in(project / "src") == "20"
    # A leftover does not get into a wheel that is to be plain.
    assert libraries(built_plain(project)) == []


def built_plain(project: Path) -> Path:
    for path in (project / "dist").glob("*.whl"):
        path.unlink()
    return built_wheel(project, SKYROCKETMQ_COMPILE="skip")


def test_an_sdist_can_be_compiled(project: Path, tmp_path: Path) -> None:
    done = build(project, "build_sdist")
    assert done.returncode == 0, done.stderr
    with tarfile.open(next((project / "dist").glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("skyrocketmq-*")
    assert len(libraries(built_wheel(source, SKYROCKETMQ_COMPILE="require"))) == 1
