"""A module has two readers or a hundred lines: a smaller one with a single reader is a part of that reader."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support import repository

COUNTED = re.compile(r"Path\(__file__\)(?:\.resolve\(\))?(?:\.parents\[|\.parent\.parent)")
LINES = 100
OUTER = "is in a layer below its reader: access, views and commands of the command line stay apart"
EXCEPTIONS = {
    "hearth.cli.stack_access.helm_releases": OUTER,
    "hearth.cli.page.waiting_plans": "asks the API server, and its reader renders",
    "hearth.engine.stack.failed_pods": "reads Pods, which nothing else in the progress of a target does",
}
"""Smaller modules with one reader, each with its reason."""


def find_modules() -> dict[str, Path]:
    """All modules by name, without packages."""
    return {
        ".".join(file.relative_to(repository.OPERATOR).with_suffix("").parts): file
        for file in sorted((repository.OPERATOR / "hearth").rglob("*.py"))
        if file.name != "__init__.py"
    }


def list_imports(tree: ast.Module, modules: dict[str, Path]) -> Iterator[str]:
    """The modules that a module imports anywhere, including imports for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield from ({f"{node.module}.{each.name}", node.module} & modules.keys())


def find_readers(modules: dict[str, Path]) -> dict[str, set[str]]:
    """The importing modules of each module."""
    readers: dict[str, set[str]] = defaultdict(set)
    for name, file in modules.items():
        for each in list_imports(ast.parse(file.read_text()), modules):
            readers[each].add(name)
    return readers


def test_no_module_is_small_and_has_one_reader() -> None:
    modules = find_modules()
    readers = find_readers(modules)

    def is_part(name: str) -> bool:
        if len(readers[name]) != 1 or len(modules[name].read_text().splitlines()) > LINES:
            return False
        (reader,) = readers[name]
        # Modules at the root and modules of other packages are other layers.
        return name.split(".")[1] == reader.split(".")[1] and min(name.count("."), reader.count(".")) > 1

    small = {name for name in modules if is_part(name)}

    assert small == EXCEPTIONS.keys()


def test_readers_are_found() -> None:
    """Otherwise, the other test would always pass."""
    readers = find_readers(find_modules())

    assert readers["hearth.handlers.kopf_run"] == {"hearth.handlers.kopf_supervisor"}
    assert len(readers["hearth.model.names"]) > 10


def test_tests_know_folders_from_one_place() -> None:
    packages = ("bench/cases", "bench/instruments", "contract", "ecosystem", "fuzz", "integration", "support", "unit")
    found = {
        file.relative_to(repository.TESTS).as_posix()
        for package in packages
        for file in (repository.TESTS / package).rglob("*.py")
        if COUNTED.search(file.read_text())
    }
    assert found == {"support/repository.py"}
