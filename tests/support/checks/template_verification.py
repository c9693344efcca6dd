"""Verifies that the children match a template exactly: one complete, equal child per resource, and no others.

Evaluates plain paths (`${a.status.value}`, `${params.size}`) on its own, so it does not repeat mistakes of the template
engine. Pure; must not know of worlds.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from support.checks import expectations, members

PLAIN = re.compile(r"\$\{\s*([a-zA-Z][\w]*(?:\.[a-zA-Z][\w]*)+)\s*\}")
WHOLE = re.compile(rf"\A{PLAIN.pattern}\Z")
CONTENTS: Mapping[str, str] = {
    "ConfigMap": "data", "Secret": "data", "Probe": "spec", "Latecomer": "spec", "Newcomer": "spec",
}  # fmt: skip
"""By kind: the field whose keys are only set by the clients that apply them."""
UNKNOWN = object()
"""The value of an expression that only the template engine can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The values of plain paths."""

    values: Mapping[str, Any]

    def read(self, path: str) -> Any:
        """The value at a path, or UNKNOWN if it does not exist."""
        found: Any = self.values
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                return UNKNOWN
            found = found[key]
        return found

    def evaluate(self, value: Any) -> Any:
        """A manifest's value with its expressions replaced."""
        if isinstance(value, dict):
            return {key: self.evaluate(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.evaluate(item) for item in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = WHOLE.match(value)
        if whole:
            return self.read(whole[1])
        return self.embed(value)

    def embed(self, text: str) -> Any:
        """A text with expressions in it."""
        found = {match[1]: self.read(match[1]) for match in PLAIN.finditer(text)}
        if UNKNOWN in found.values() or "${" in PLAIN.sub("", text):
            return UNKNOWN
        return PLAIN.sub(lambda match: str(found[match[1]]), text)


def find_wrong(spec: Mapping[str, Any], stack: Object, children: Mapping[str, Sequence[Object]]) -> list[str]:
    """All differences between the children of a complete Stack and its template."""
    template = spec.get("template")
    if template is None:
        return []
    resources = members.expand(spec)
    # If external objects determine the members, the members are unknown here.
    stated = template.get("resources") or {}
    made = {name for name, each in stated.items() if not str(each.get("forEach", "params.")).startswith("params.")}
    children = {name: found for name, found in children.items() if name.partition("[")[0] not in made}
    children = less_spared(children, stack, resources)
    wanted = {name: each for name, each in resources.items() if "when" not in each}
    optional = {name for name, each in resources.items() if "when" in each}
    wrong = [f"V: {name} is not in the template and has an object" for name in children.keys() - wanted - optional]
    done = {each["resource"] for each in expectations.status_of(stack).get("finished") or ()}
    wanted = {name: each for name, each in wanted.items() if name not in done or children.get(name)}
    wrong += [
        f"V: {name} has {len(children.get(name, ()))} objects" for name in wanted if len(children.get(name, ())) != 1
    ]
    if wrong:
        return wrong
    scope = make_scope(spec, stack, {name: found[0] for name, found in children.items()})
    for name, resource in wanted.items():
        manifest = as_stored(evaluate_manifest(scope, resource["manifest"]))
        manifest = less_left(manifest, resource, children[name][0])
        wrong += [f"V: {name}: {text}" for text in find_differences(manifest, children[name][0], "")]
        wrong += [f"V: {name}: {text}" for text in find_incomplete(children[name][0], stack)]
        wrong += [f"V: {name}: {text}" for text in find_left(as_stored(resource["manifest"]), children[name][0], stack)]
    return wrong


def evaluate_manifest(scope: Scope, manifest: Any) -> Any:
    """A manifest with its expressions replaced, except those in the template of a nested stack or group: its own."""
    evaluated = scope.evaluate(manifest)
    if manifest.get("kind") in names.STACK_KINDS and "template" in manifest["spec"]:
        evaluated = {**evaluated, "spec": {**evaluated["spec"], "template": manifest["spec"]["template"]}}
    return evaluated


def as_stored(manifest: Any) -> Any:
    """A manifest as an API server stores it: the texts of a Secret are in its data, in Base64."""
    if manifest.get("kind") != "Secret" or "stringData" not in manifest:
        return manifest
    texts = {key: base64.b64encode(text.encode()).decode() for key, text in manifest["stringData"].items() if text}
    rest = {key: value for key, value in manifest.items() if key != "stringData"}
    return {**rest, "data": {**(manifest.get("data") or {}), **texts}}


def make_scope(spec: Mapping[str, Any], stack: Object, children: Mapping[str, Object]) -> Scope:
    """The values of plain paths in a spec, with one object per resource."""
    declared = spec["template"].get("parameters") or {}
    # Values of other objects are not looked up here.
    defaults = {name: UNKNOWN if spec.get("parametersFrom") else each.get("default") for name, each in declared.items()}
    parameters = defaults | (spec.get("parameters") or {})
    identity = {key: stack["metadata"][key] for key in ("name", "namespace", "uid")}
    return Scope(values={"params": parameters, "stack": identity, **children})


def less_spared(
    children: Mapping[str, Sequence[Object]], stack: Object, wanted: Mapping[str, Any]
) -> Mapping[str, Sequence[Object]]:
    """The children except those that an automatic rollback keeps because they hold data or are retained."""
    if (expectations.status_of(stack).get("target") or {}).get("cause") != "AutomaticRollback":
        return children
    return {name: found for name, found in children.items() if name in wanted or not all(map(is_spared, found))}


def is_spared(raw: Object) -> bool:
    """Whether an automatic rollback keeps the object."""
    policy = (raw["metadata"].get("annotations") or {}).get(names.ANNOTATION_DELETION_POLICY)
    return raw["kind"] == "PersistentVolumeClaim" or policy == names.RETAIN


def less_left(manifest: Any, resource: Mapping[str, Any], found: Object) -> Any:
    """A manifest without fields that others may keep: by the resource's policy, or a replica count that a user
    scales.
    """
    if resource.get("driftPolicy", "Repair") != "Repair":
        return {}
    entries = found["metadata"].get("managedFields", ())
    is_scaled = any(
        entry.get("subresource") == "scale" or entry["manager"] == names.SUSPEND_FIELD_MANAGER for entry in entries
    ) or not any("f:replicas" in (entry["fieldsV1"].get("f:spec") or {}) for entry in entries)
    scaled = ["spec.replicas"] if is_scaled else []
    for path in [*resource.get("ignoreFields", ()), *scaled]:
        manifest = take_out(manifest, path.split("."))
    return manifest


def take_out(manifest: Any, way: Sequence[str]) -> Any:
    """A manifest without the field at a plain path."""
    if not isinstance(manifest, dict) or way[0] not in manifest:
        return manifest
    rest = {key: value for key, value in manifest.items() if key != way[0]}
    return {**rest, way[0]: take_out(manifest[way[0]], way[1:])} if len(way) > 1 else rest


def find_differences(wanted: Any, found: Any, path: str) -> Iterator[str]:
    """Fields of an object that differ from its manifest; extra fields do not count."""
    if wanted is UNKNOWN or wanted is None:
        return
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, inner in wanted.items():
            yield from find_differences(inner, found.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) <= len(found):
        for index, inner in enumerate(wanted):
            yield from find_differences(inner, found[index], f"{path}[{index}]")
    elif wanted != found:
        yield f"{path} should be {expectations.show(wanted)} and is {expectations.show(found)}"


def find_incomplete(found: Object, stack: Object) -> Iterator[str]:
    """Why an object is not a complete child of the Stack."""
    metadata = found["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if "deletionTimestamp" in metadata:
        yield "it is being deleted"
    if labels.get(names.LABEL_STACK) != names.stack_label(stack["metadata"]["name"]):
        yield f"its label {names.LABEL_STACK} is {labels.get(names.LABEL_STACK)}"
    if not annotations.get(names.ANNOTATION_IDENTITY, "").startswith(stack["metadata"]["uid"]):
        yield "its identity names another stack"
    if metadata.get("ownerReferences"):
        yield "it has an owner reference"
    if "ready" in (found.get("status") or {}) and not found["status"]["ready"]:
        yield "it is not ready"


def find_left(manifest: Any, found: Object, stack: Object) -> Iterator[str]:
    """Leftover fields of an object: no longer in its manifest, without another owner, and not reported in the status."""
    at = CONTENTS.get(found["kind"], "")
    stated, said = manifest.get(at), found.get(at)
    if not at or not isinstance(said, dict) or isinstance(stated, str):
        return
    metadata = stack["metadata"]
    own = names.field_manager(metadata["namespace"], metadata["name"], kind=stack.get("kind", names.STACK))
    others = [each for each in found["metadata"].get("managedFields", ()) if each["manager"] != own]
    theirs = {key.removeprefix("f:") for each in others for key in each["fieldsV1"].get(f"f:{at}") or ()}
    reported = json.dumps(stack.get("status"))
    # Keep a replica count that the template leaves to other field managers.
    for key in said.keys() - (stated or {}).keys() - theirs - {"replicas"}:
        if f"{at}.{key}" not in reported:
            yield f"{at}.{key} is not in its manifest, and stays"
