"""No module imports itself indirectly, so the order of imports does not matter."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator

from support import repository


def list_imports(tree: ast.Module) -> Iterator[str]:
    """The imports that run when a module is imported, without imports in functions and for types."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                yield from (f"{node.module}.{each.name}", node.module)


def test_there_is_no_circle_of_imports() -> None:
    files = {
        ".".join(file.relative_to(repository.OPERATOR).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted((repository.OPERATOR / "hearth").rglob("*.py"))
    }
    graph = {
        name: {each for each in list_imports(ast.parse(file.read_text())) if each in files and each != name}
        for name, file in files.items()
    }
    # A package is imported before its modules, and imports none of them.
    packages = {name for name, file in files.items() if file.name == "__init__.py"}

    graphlib.TopologicalSorter({name: found - packages for name, found in graph.items()}).prepare()
