"""Collections for the checks: the names of their members, and the resources they expand to.

Evaluates `forEach` and `key` on its own if they are plain paths to parameters, so it does not repeat mistakes of the
template engine. Pure; must not know of worlds.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object

MISTAKEN = "wrong"
"""The resource that makes a definition invalid."""
LABEL = re.compile(r"([a-z][a-zA-Z0-9]*)\.([a-z0-9-]+)")
OWN = re.compile(r"\$\{\s*((?:item|index|key)(?:\.\w+)*)\s*\}")
EXPRESSION = re.compile(r"\$\{([^}]*)\}")
WORD = re.compile(r"(?<![.\w])[a-z]\w*")
OWN_ALONE = re.compile(rf"\A{OWN.pattern}\Z")


def resource_of(raw: Mapping[str, Any]) -> str:
    """The resource in an object's label: `workers[a]` for `workers.a`, because a label has a limited length."""
    label = str((raw["metadata"].get("labels") or {}).get(names.LABEL_RESOURCE, ""))
    found = LABEL.fullmatch(label)
    return f"{found[1]}[{found[2]}]" if found is not None else label


def all_of(resource: str) -> str:
    """The name for all members of that member's collection; "" for other resources."""
    collection, bracket, _ = resource.partition("[")
    return f"{collection}[*]" if bracket else ""


def expand(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a spec or revision, with collections expanded to members."""
    found: dict[str, Any] = {}
    resources = (definition.get("template") or {}).get("resources") or {}
    # A Stack does not own the objects that it only reads.
    stated = {name: each for name, each in resources.items() if "externalRef" not in each}
    elements = {name: find_elements(definition, each) for name, each in stated.items() if "forEach" in each}
    collections = {name: [f"{name}[{values['key']}]" for values in each] for name, each in elements.items()}
    for name, resource in stated.items():
        needs = find_members_needed(resource, collections) if collections else []
        rest = {key: value for key, value in resource.items() if key not in ("forEach", "key")}
        rest |= {"dependsOn": needs} if needs else {}
        if name not in elements:
            found[name] = rest
        for values in elements.get(name, ()):
            found[f"{name}[{values['key']}]"] = {**rest, "manifest": fill_in_manifest(resource["manifest"], values)}
    return found


def find_members_needed(resource: Mapping[str, Any], collections: Mapping[str, list[str]]) -> list[str]:
    """The `dependsOn` of a resource with expanded members, including collections that its expressions read."""
    used = {word for text in EXPRESSION.findall(json.dumps(resource["manifest"])) for word in WORD.findall(text)}
    stated = resource.get("dependsOn", ())
    read = [member for name, each in collections.items() if name in used for member in each]
    return list(dict.fromkeys([*(each for name in stated for each in collections.get(name, [name])), *read]))


def find_elements(definition: Mapping[str, Any], resource: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The elements that each member's expressions read; empty if others than the user decide the list of members."""
    if not str(resource["forEach"]).startswith("params."):
        return []
    declared = definition["template"].get("parameters") or {}
    parameters = {name: each.get("default") for name, each in declared.items()} | (definition.get("parameters") or {})
    source = read({"params": parameters}, resource["forEach"])
    pairs = sorted(source.items()) if isinstance(source, dict) else [(str(at), item) for at, item in enumerate(source)]
    elements = [{"item": item, "index": at, "key": key} for at, (key, item) in enumerate(pairs)]
    if "key" in resource:
        elements = [{**each, "key": read(each, resource["key"])} for each in elements]
    return elements


def fill_in_manifest(manifest: Object, values: Mapping[str, Any]) -> Object:
    """A manifest with the member's own values, except in the template of a nested Stack or group."""
    filled: Object = fill_in(manifest, values)
    if manifest["kind"] in names.STACK_KINDS and "template" in manifest["spec"]:
        filled["spec"]["template"] = manifest["spec"]["template"]
    return filled


def fill_in(value: Any, values: Mapping[str, Any]) -> Any:
    """A manifest with the member's own values."""
    if isinstance(value, dict):
        return {key: fill_in(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_in(inner, values) for inner in value]
    if not isinstance(value, str):
        return value
    alone = OWN_ALONE.match(value)
    if alone is not None:
        return read(values, alone[1])
    return OWN.sub(lambda match: str(read(values, match[1])), value)


def read(values: Mapping[str, Any], path: str) -> Any:
    """The value at a plain path."""
    found: Any = values
    for key in path.split("."):
        found = found[key]
    return found


def with_members(definition: Mapping[str, Any]) -> Object:
    """The template of a spec or revision, with collections and groups expanded to members."""
    if "size" in definition:
        return {"resources": expand_group(definition)}
    return {**(definition.get("template") or {}), "resources": expand(definition)}


def expand_group(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a group, from its revision."""
    size, (member,) = definition["size"], definition["template"]["resources"].values()
    free = (index for index in itertools.count() if index not in size.get("removed", ()))
    indices = itertools.islice(free, size["replicas"])
    rest = {key: value for key, value in member.items() if key != "forEach"}
    return {
        str(index): {**rest, "manifest": fill_in_manifest(member["manifest"], {"index": index, "key": str(index)})}
        for index in indices
    }
