"""Finds risky places in a StackDefinition with its own account that a developer's parameter can reach.

Its objects are written with more rights than the developer has. These are warnings, not mistakes, because the rules of
the parameter may make it harmless.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from hearth.model import object_fields
from hearth.template.cel import cel_environment, expressions
from hearth.template.text import error_hints, interpolation

TEMPLATE: Final = "spec.template"
PARAMETERS: Final = "params"
ELEMENT: Final = frozenset({"item", "key"})
RISKS: Final[Mapping[str, str]] = {
    "namespace": "determines the namespace of the object",
    "serviceAccountName": "determines the permissions of a Pod",
    "serviceAccount": "determines the permissions of a Pod",
    "roleRef": "determines the permissions that are granted",
    "rules": "determines the permissions that are granted",
    "subjects": "determines the users who get permissions",
    "clusterRoleSelectors": "determines the permissions that are granted",
    "hostPath": "determines which files of the node are exposed",
    "securityContext": "determines the privileges of a container on its node",
    "hostNetwork": "determines whether a Pod can access its node",
    "hostPID": "determines whether a Pod can access its node",
    "webhooks": "determines which server reviews requests",
    "kubeConfig": "determines the cluster",
}
"""Effect of a value in or below a field, by the field's name."""
READING_RISKS: Final[Mapping[str, str]] = {
    "namespace": "determines the namespace from which an object is read",
    "name": "determines which object is read",
    "selector": "determines which objects are read",
}
"""Effect of a value in the metadata of an `externalRef`, by the field's name."""
NARROW: Final = frozenset({"enum", "const", "pattern"})
"""Rules of a parameter that limit its text."""


def find_warnings(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each risky place; none without an account. spec: of a StackDefinition, of any shape."""
    template = spec.get("template")
    if not spec.get("account") or not isinstance(template, dict):
        return
    rules = object_fields.mapping(template, "parameters")
    for name, resource in object_fields.mapping(template, "resources").items():
        manifest, loop = object_fields.find(resource, "manifest"), object_fields.text(resource, "forEach")
        where = f"{TEMPLATE}.resources{error_hints.write_key(str(name))}"
        of_elements = find_parameters([loop]) if loop else set()
        risks = (
            *find_risks(manifest, f"{where}.manifest", is_privileged=has_privileges(manifest)),
            *find_reading_risks(object_fields.find(resource, "externalRef"), f"{where}.externalRef"),
        )
        for path, risk, text in risks:
            for parameter in sorted(find_parameters(interpolation.find_expressions(text), of_elements)):
                if not is_narrow(rules.get(parameter)):
                    yield (
                        f"{path}: the parameter {parameter} {risk}, with the permissions of spec.account; set an "
                        "enum or a "
                        f"pattern in {TEMPLATE}.parameters.{parameter}, or a fixed value"
                    )


def find_risks(value: Any, path: str, risk: str = "", *, is_privileged: bool) -> Iterator[tuple[str, str, str]]:
    """Yield each text in a risky place: its path, its effect, and the text. risk: applies to everything below."""
    if isinstance(value, dict):
        for key, inner in value.items():
            found = risk or RISKS.get(str(key), "")
            if key == "image" and is_privileged:
                found = "determines a program that runs with elevated privileges"
            yield from find_risks(inner, f"{path}{error_hints.write_key(str(key))}", found, is_privileged=is_privileged)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from find_risks(inner, f"{path}[{at}]", risk, is_privileged=is_privileged)
    elif isinstance(value, str) and risk:
        yield path, risk, value


def find_reading_risks(reference: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield each text that selects an external object: its path, its effect, and the text."""
    metadata = object_fields.find(reference, "metadata")
    for word in READING_RISKS:
        if value := object_fields.find(metadata, word):
            yield from find_risks(value, f"{path}.metadata.{word}", READING_RISKS[word], is_privileged=False)


def has_privileges(value: Any) -> bool:
    """Return whether a manifest has a Pod with more rights than usual: on its node, or of a ServiceAccount."""
    if isinstance(value, list):
        return any(map(has_privileges, value))
    if not isinstance(value, dict):
        return False
    is_raised = value.get("privileged") is True or value.get("hostNetwork") is True or value.get("hostPID") is True
    is_named = bool(value.get("serviceAccountName")) or "hostPath" in value
    return is_raised or is_named or any(map(has_privileges, value.values()))


def find_parameters(texts: Iterable[str], of_elements: Collection[str] = ()) -> set[str]:
    """Return the parameters that expressions read. An expression that cannot be parsed, which is an error, reads none.

    of_elements: the parameters that the elements of a collection come from.
    """
    found: set[str] = set()
    for text in texts:
        with contextlib.suppress(cel_environment.CelCompileError):
            reads = expressions.parse(text).reads
            for each in (*reads.reads, *reads.intermediate):
                if each.root == PARAMETERS:
                    found |= set(each.path[:1])
                elif each.root in ELEMENT:
                    found |= set(of_elements)
    return found


def is_narrow(rules: Any) -> bool:
    """Return whether rules leave a parameter no free text: a list of values, a pattern, or a type without text."""
    if not isinstance(rules, dict):
        return False
    return not NARROW.isdisjoint(rules) or rules.get("type") in ("boolean", "integer", "number")
