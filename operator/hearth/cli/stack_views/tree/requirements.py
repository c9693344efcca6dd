"""Which resources of a template require which, without a compilation: from what objects record, else from the text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from hearth.cli import object_fields
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.graph import order
from hearth.model import members
from hearth.template.text import interpolation


def find_requirements(resources: Mapping[str, Any], chosen: Mapping[str, FoundChild]) -> dict[str, list[str]]:
    """Return for each resource those that it requires, in the order of the template."""
    recorded: dict[str, list[str]] = {}
    for name, child in chosen.items():
        recorded.setdefault(members.root_of(name), []).extend(child.requires)
    known = frozenset(resources)
    # No object records what is only read.
    external = frozenset(name for name, resource in resources.items() if object_fields.find(resource, "externalRef"))
    found = {}
    for name, resource in resources.items():
        sought = external if name in recorded else known
        named = [each for each in find_named(resource, sought) if each != name] if sought else []
        found[name] = list(dict.fromkeys([*recorded.get(name, ()), *named]))
    return found


def name_external(resources: Mapping[str, Any], name: str, *, namespace: str) -> str:
    """Return the object that a resource only reads, as `service/gateway in ingress`, or `services by label`.

    namespace: of the Stack, which is not repeated.
    """
    stated = object_fields.mapping(resources, name, "externalRef")
    metadata = object_fields.mapping(stated, "metadata")
    kind = object_fields.text(stated, "kind").lower()
    place = object_fields.text(metadata, "namespace")
    where = " in all namespaces" if metadata.get("allNamespaces") is True else ""
    where = f" in {place}" if place not in ("", namespace) else where
    return f"{kind}/{object_fields.text(metadata, 'name')}{where}" if "name" in metadata else f"{kind} by label{where}"


def sort(requirements: Mapping[str, list[str]]) -> list[str]:
    """Return all names, each after what it requires; those on a cycle come last."""
    found = order.sort(requirements)
    return (
        [*found, *(name for name in requirements if name not in set(found))]
        if len(found) < len(requirements)
        else found
    )


def find_named(resource: Any, names: Collection[str]) -> list[str]:
    """Return the resources that `dependsOn` and the expressions of a resource name."""
    stated = map(members.root_of, object_fields.texts(resource, "dependsOn"))
    found = dict.fromkeys(name for name in stated if name in names)
    for text in interpolation.find_expressions(object_fields.find(resource, "manifest")):
        found.update(dict.fromkeys(name for name in find_roots(text) if name in names))
    return list(found)


def find_roots(text: str) -> tuple[str, ...]:
    """Return the names that an expression reads; none if it is no expression."""
    # It takes some time to import, and most trees need none of it.
    from hearth.template.cel import cel_environment, expressions

    try:
        return expressions.parse(text).roots
    except cel_environment.CelCompileError:
        return ()
