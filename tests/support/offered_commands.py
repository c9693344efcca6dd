"""The commands that the product offers in messages, found in its source: strings that people may paste into a shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hearth

ROOT = Path(hearth.__file__).parent
VERBS = re.compile(
    r"kubectl (?:stack [a-z]+|get|describe|logs|edit|patch|delete|create|annotate|apply|auth|api-resources|wait|scale|explain|label)"
    r"|hearth (?:run|crds|import|demo)|kubectl stack $"
)


def find_offers() -> Iterator[tuple[str, str]]:
    """Module and command of each string that names one: `cli.stack_views.causes.advice`, `kubectl edit`."""
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(file.read_text())
        documentation = {id(each) for each in find_documentation(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                for command in VERBS.findall(node.value):
                    yield module, f"{command}…" if command.endswith(" ") else command


def find_documentation(tree: ast.AST) -> Iterator[ast.AST]:
    """Strings that are statements, or the examples and the help of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg in ("examples", "help", "summary", "epilog"):
            yield from ast.walk(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "example_command":
            yield from ast.walk(node)
