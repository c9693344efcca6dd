"""Converts definitions to and from their stored form, which has only the source and a keyed hash of sensitive
values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hearth.engine import cooperative_work
from hearth.engine.cluster_objects import StackObject
from hearth.engine.definition import definition_sources
from hearth.engine.definition.definition_sources import ParameterSource, SourceReader
from hearth.model.child import Object
from hearth.model.errors import SourceNotFound
from hearth.model.kinds import ObjectRef
from hearth.model.members import GroupSize
from hearth.plan.ownership.keyed_hash import HashFunction
from hearth.template.blueprint import Definition
from hearth.template.compiler import sensitivity

SIZE = "size"
SPEC = "spec.parameters"
"""The origin of values that are set in the Stack itself."""


def to_stored(definition: Definition, hashes: HashFunction) -> Object:
    """Return `{"template", "parameters"}`; `sensitive` maps names of unstored values to origin and hash."""
    given: Any = definition.parameters
    hidden = sorted(sensitivity.find_sensitive(definition) & given.keys()) if isinstance(given, dict) else []
    size: Object = {SIZE: describe_size(definition.size)} if definition.size is not None else {}
    if not hidden:
        return {"template": definition.template, "parameters": definition.parameters, **size}
    return {
        "template": definition.template,
        "parameters": {name: value for name, value in given.items() if name not in hidden},
        "sensitive": {name: describe(definition, name, hashes) for name in hidden},
        **size,
    }


def describe_size(size: GroupSize) -> Object:
    """Return the stored form of the size of a group."""
    return {"replicas": size.replicas, "removed": list(size.removed)}


def with_size(definition: Definition, recorded: Mapping[str, Any]) -> Definition:
    """Return the definition with the stored size of a group, if there is one."""
    stored = recorded.get(SIZE)
    if stored is None:
        return definition
    size = GroupSize(replicas=stored["replicas"], removed=tuple(stored["removed"]))
    return dataclasses.replace(definition, size=size)


def describe(definition: Definition, name: str, hashes: HashFunction) -> Object:
    """Return the stored form of one sensitive value."""
    origin = definition.origins.get(name)
    source = f"{origin.kind}/{origin.name}" if origin is not None else SPEC
    # The hash includes the location, so it does not reveal equal secrets in different places.
    key = origin.key if origin is not None else name
    return {"from": source, "key": key, "hash": hashes.hash([source, name, definition.parameters[name]])}


def without_values(recorded: Mapping[str, Any]) -> Object:
    """Return a stored definition without the hashes of its sensitive values."""
    kept: Mapping[str, Any] = recorded.get("sensitive") or {}
    return {
        **recorded,
        "sensitive": {name: {key: entry[key] for key in ("from", "key")} for name, entry in kept.items()},
    }


def hash_record(recorded: Mapping[str, Any], hashes: HashFunction) -> str:
    """Return the keyed hash that identifies a definition, over its whole stored form."""
    return hashes.hash(list(recorded.values()))


def is_as_stored(recorded: Mapping[str, Any], hashed: str, hashes: HashFunction) -> bool:
    """Return whether the content still matches the hash that was stored with it."""
    try:
        return hash_record(recorded, hashes) == hashed
    except (TypeError, ValueError, RecursionError):
        # The content is nested too deeply for any definition, or is not valid JSON.
        return False


async def from_stored(
    recorded: Mapping[str, Any], *, reader: SourceReader, stack: StackObject, number: int, hashes: HashFunction
) -> Definition:
    """Restore the definition of revision `number` with the current sensitive values from their origins.

    Raises SourceNotFound if a value is missing, InvalidDefinition if it is not text.
    """
    kept: Mapping[str, Any] = recorded.get("sensitive") or {}
    if not kept:
        found_definition = await cooperative_work.finish(
            definition_sources.apply_sources(recorded["template"], recorded["parameters"], {}),
            take_turn=reader.take_turn,
        )
        return with_size(found_definition, recorded)
    place = f"revision {number}"
    given = {**recorded["parameters"], **read_spec(kept, stack, place=place)}
    found = await read_sources(kept, reader=reader, namespace=stack.namespace, place=place)
    made = definition_sources.apply_sources(recorded["template"], given, found)
    definition = await cooperative_work.finish(made, take_turn=reader.take_turn)
    missing = {name: entry["from"] for name, entry in kept.items() if name not in definition.parameters}
    if missing:
        lines = [
            f"{place}: {source} no longer has the key {kept[name]['key']}; add it" for name, source in missing.items()
        ]
        raise SourceNotFound("\n".join(lines))
    return dataclasses.replace(definition, refreshed=find_refreshed(definition, kept, hashes))


def find_sources(recorded: Mapping[str, Any], namespace: str) -> frozenset[ObjectRef]:
    """Return the objects that the sensitive values of a stored definition are read from."""
    kept: Mapping[str, Any] = recorded.get("sensitive") or {}
    return frozenset(locate(name, namespace) for name in {entry["from"] for entry in kept.values()} - {SPEC})


async def read_sources(
    kept: Mapping[str, Any], *, reader: SourceReader, namespace: str, place: str
) -> dict[str, definition_sources.SourceValue]:
    """Read the current sensitive values from their sources."""
    names = sorted({entry["from"] for entry in kept.values()} - {SPEC})
    sources = [ParameterSource(ref=locate(name, namespace), place=place, is_recorded=True) for name in names]
    found: dict[str, definition_sources.SourceValue] = {}
    for source in sources:
        # Read one source at a time. Another source may have the same key, but only the origin counts.
        named = f"{source.ref.kind}/{source.ref.name}"
        read = {name: entry["key"] for name, entry in kept.items() if entry["from"] == named}
        values = await definition_sources.read_parameters(reader, [source], wanted=set(read.values()))
        found.update({name: values[key] for name, key in read.items() if key in values})
    return found


def read_spec(kept: Mapping[str, Any], stack: StackObject, *, place: str) -> Object:
    """Return the current sensitive values in the Stack itself."""
    live = stack.spec.get("parameters") or {}
    names = [name for name, entry in kept.items() if entry["from"] == SPEC]
    missing = [name for name in names if name not in live]
    if missing:
        lines = [f"{place}: the sensitive parameter {name} was not stored; set it in {SPEC}" for name in missing]
        raise SourceNotFound("\n".join(lines))
    return {name: live[name] for name in names}


def locate(name: str, namespace: str) -> ObjectRef:
    """Return the object that a name like `Secret/db` refers to."""
    kind, _, name = name.partition("/")
    return ObjectRef(group="", kind=kind, namespace=namespace, name=name)


def find_refreshed(definition: Definition, kept: Mapping[str, Any], hashes: HashFunction) -> tuple[str, ...]:
    """Return the sensitive parameters whose values differ from the stored ones; incomparable hashes count as equal."""
    return tuple(
        name
        for name, entry in kept.items()
        if hashes.is_comparable(entry["hash"]) and describe(definition, name, hashes)["hash"] != entry["hash"]
    )
