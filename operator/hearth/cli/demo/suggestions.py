"""Suggestions for a Stack that is ready, as shell commands. Pure: made from its manifest and its rows."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from hearth.cli.stack_views.tree.stack_view import StackView
from hearth.model import value_class
from hearth.model.child import Object

WORKLOADS: Final = ("deployment/", "statefulset/")
WRONG: Final = {
    "string": 42,
    "integer": "many",
    "number": "many",
    "boolean": "perhaps",
    "array": "one",
    "object": "one",
}
"""A value of another type, by type."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShellEnvironment:
    """Environment of the user's shell."""

    kubeconfig: str
    kubectl: str | None
    """The path of a kubectl that is not on PATH; None if kubectl is."""


def advise(stack: Object, view: StackView, where: ShellEnvironment) -> list[str]:
    """Return the lines to print: the setup of a shell, then one suggestion for each line."""
    kubectl = f"kubectl -n {shlex.quote(view.namespace)}"
    tries = list(find_tries(stack, view, kubectl))
    width = max(len(title) for title, _ in tries)
    lines = ["Next steps, in another terminal:", "", f"  {prepare(where)}", ""]
    return [*lines, *(f"  {title.ljust(width)}   {command}" for title, command in tries)]


def prepare(where: ShellEnvironment) -> str:
    """Return the command that sets up the cluster and kubectl for the following ones."""
    command = f"export KUBECONFIG={shlex.quote(where.kubeconfig)}"
    if where.kubectl is None:
        return command
    return f"{command} PATH={shlex.quote(str(Path(where.kubectl).parent))}{os.pathsep}$PATH"


def find_tries(stack: Object, view: StackView, kubectl: str) -> Iterator[tuple[str, str]]:
    """Yield each suggestion: its title and its command."""
    name = shlex.quote(view.name)
    number = find_number(stack)
    if number is not None:
        yield "edit a parameter", patch(kubectl, name, {number[0]: number[1]})
    # The last one: nothing else waits for it, so that the effect is plain.
    workload = next((row.object for row in reversed(view.rows) if row.object.startswith(WORKLOADS)), None)
    child = workload or next((row.object for row in reversed(view.rows) if "/" in row.object), None)
    if child is not None:
        yield "delete a child: Hearth recreates it", f"{kubectl} delete {child}"
    if workload is not None:
        yield "change it by hand: Hearth reverts it", f"{kubectl} set image {workload} '*=example.com/other'"
    wrong = find_wrong(stack)
    if wrong is not None:
        yield "set an invalid parameter: Hearth says what is wrong", patch(kubectl, name, {wrong[0]: wrong[1]})
    yield "delete the stack", f"{kubectl} delete stack {name}"


def patch(kubectl: str, name: str, parameters: Mapping[str, Any]) -> str:
    """Return the command that sets parameters of a Stack."""
    body = json.dumps({"spec": {"parameters": parameters}}, separators=(",", ":"))
    return f"{kubectl} patch stack {name} --type=merge -p {shlex.quote(body)}"


def find_number(stack: Object) -> tuple[str, int] | None:
    """Return an integer parameter and another valid value of it."""
    given = stack["spec"].get("parameters") or {}
    for name, rules in find_parameters(stack).items():
        value = given.get(name, rules.get("default"))
        if rules.get("type") != "integer" or not isinstance(value, int):
            continue
        for other in (value + 2, value + 1, value - 1):
            if rules.get("minimum", other) <= other <= rules.get("maximum", other):
                return name, other
    return None


def find_wrong(stack: Object) -> tuple[str, Any] | None:
    """Return a parameter and an invalid value of it."""
    for name, rules in find_parameters(stack).items():
        if rules.get("type") in WRONG:
            return name, WRONG[rules["type"]]
    return None


def find_parameters(stack: Object) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of the Stack's template."""
    template = stack["spec"].get("template") or {}
    return template.get("parameters") or {}
