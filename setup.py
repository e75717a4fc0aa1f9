"""Compiles `skyrocketmq/hot/` to C; all else about the package stands in pyproject.toml.

A module there is a pair: `x.py`, which every Python runs, and `_x.py` with its `_x.pxd`, which Cython compiles. Where
there is no C compiler the package is made of the plain modules alone, and says so when it runs. Environment:

    SKYROCKETMQ_COMPILE=require    fail if anything cannot be compiled: for CI and for wheels that are published
    SKYROCKETMQ_COMPILE=skip       compile nothing: the wheel is then one for every system

`pip install .` and `pip install --editable .` come by here. Where setuptools and Cython are installed, `python setup.py
build_ext --inplace` compiles again what has changed.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
HOT = HERE / "src" / "skyrocketmq" / "hot"
PACKAGE = "skyrocketmq.hot"
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": True,  # locals are typed where they are used; fields, constants and signatures in the .pxd
    "freethreading_compatible": True,  # functions of their arguments alone: no module keeps anything between calls
}
FLAGS = {"msvc": ["/O2"]}  # by the kind of compiler
USUAL_FLAGS = ["-O2", "-g0"]  # without debugging data a module is a fifth as large

# What belongs to a compiled module, and the digest by which a stale one is known, is said once, beside the modules.
form = runpy.run_path(str(HOT / "form.py"))
choice = os.environ.get("SKYROCKETMQ_COMPILE", "")
if choice not in ("", "require", "skip"):
    sys.exit(f"SKYROCKETMQ_COMPILE is {choice!r}; it can be require, skip, or empty")


class BuildHot(build_ext):
    """Compiles all modules or, unless that is required, none: a half-compiled package would be neither form."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        try:
            self._write_c()
            super().run()
        except Exception as error:  # Cython missing, no compiler, no Python.h: each has an exception of its own
            if choice == "require":
                raise
            print(f"skyrocketmq: nothing is compiled, plain Python will run instead: {error}", file=sys.stderr)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []

    def build_extensions(self) -> None:
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS.get(self.compiler.compiler_type, USUAL_FLAGS)
        super().build_extensions()

    def _write_c(self) -> None:
        """Let Cython write C, in the folder of the build: the sources keep theirs to themselves."""
        from Cython.Build import cythonize  # a requirement of the build, and of nothing else

        root = Path(self.build_temp).resolve()
        folder = root.joinpath(*PACKAGE.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        for package in (folder, folder.parent):
            _write(package / "__init__.py", "")
        for path in form["sources"](HOT):
            text = path.read_text(encoding="utf-8")
            if path in form["compiled_sources"](HOT):
                text += f'\n{form["MARK"]} = "{form["digest"](path)}"\n'
            _write(folder / path.name, text)
        self.extensions = cythonize(
            [Extension(one.name, [str(folder / Path(one.sources[0]).name)]) for one in self.extensions],
            include_path=[str(root)],
            compiler_directives=DIRECTIVES,
            quiet=True,
        )
        for extension in self.extensions:
            extension._needs_stub = False  # as setuptools has it after `finalize_options`
        self.ext_map = {one.name: one for one in self.extensions}


def _write(path: Path, text: str) -> None:
    """Write a file, unless it says that already: what is newer than its C is compiled again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


extensions = [
    Extension(f"{PACKAGE}.{path.stem}", [path.relative_to(HERE).as_posix()]) for path in form["compiled_sources"](HOT)
]
setup(ext_modules=[] if choice == "skip" else extensions, cmdclass={"build_ext": BuildHot})
