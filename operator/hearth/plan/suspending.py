"""What is written to suspend one object and to let it go again, and what it remembers meanwhile.

A field manager of its own states the fields that suspend the object, and nothing else: so no definition is needed for it,
and the object's own is as it was. The record of how the fields were is an annotation that the same apply writes.
Must not know when and in what order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from hearth.model import names
from hearth.model.child import Child, Object, Ownership, Path
from hearth.plan import ownership, suspend_rules
from hearth.plan.ownership import Finding
from hearth.plan.steps import Purpose, Suspend
from hearth.plan.suspend_rules import SuspendRule

AWAKE = "false"
"""What the annotation says where the object's own definition has taken all back in one apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How the fields that suspend an object were before."""

    ours: Mapping[Path, Any] = field(default_factory=dict)
    """Those that its definition held, which therefore puts them back, with their values."""
    theirs: Mapping[Path, Any] = field(default_factory=dict)
    """The others; None where they were not there."""
    is_awake: bool = False
    """Whether they are so again, though its definition has not put them back."""


def is_suspended(child: Child) -> bool:
    """Whether it was suspended, and not let go since."""
    annotations: Mapping[str, str] = child.fields["metadata"].get("annotations") or {}
    return annotations.get(names.ANNOTATION_SUSPENDED, AWAKE) != AWAKE


def is_asleep(child: Child) -> bool:
    """Whether it was suspended, and is so yet."""
    return is_suspended(child) and not read_record(child).is_awake


def read_record(child: Child) -> Record:
    """What a suspended object remembers; nothing where somebody has spoilt it."""
    text = child.fields["metadata"]["annotations"][names.ANNOTATION_SUSPENDED]
    try:
        said = orjson.loads(text)
        ours, theirs = (
            {
                path: value
                for written, value in said.get(word, {}).items()
                if (path := suspend_rules.parse_path(written))
            }
            for word in ("ours", "theirs")
        )
        return Record(ours=ours, theirs=theirs, is_awake=said.get("awake") is True)
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return Record()


def write_record(record: Record) -> str:
    """As the annotation says it."""
    fields = {"ours": record.ours, "theirs": record.theirs}
    said: Object = {
        word: {suspend_rules.write_path(path): value for path, value in values.items()}
        for word, values in fields.items()
        if values
    }
    if record.is_awake:
        said["awake"] = True
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode()


def suspend(child: Child, rule: SuspendRule) -> Suspend:
    """The step that brings an object to nothing; again where somebody has started it meanwhile."""
    is_again = is_asleep(child)
    before = read_record(child) if is_suspended(child) else Record()
    if before.is_awake:
        before = Record(ours=read_fields(child, before.ours), theirs=read_fields(child, before.theirs))
    unknown = [path for path in rule.sets if path not in before.ours and path not in before.theirs]
    ours = [path for path in unknown if owns(child.ownership, path)]
    theirs = [path for path in unknown if path not in ours]
    record = Record(
        ours={**before.ours, **read_fields(child, ours)}, theirs={**before.theirs, **read_fields(child, theirs)}
    )
    started = (path for path, value in rule.sets.items() if suspend_rules.read(child.fields, path) != value)
    return Suspend(
        child=child,
        manifest=state(child, rule.sets, record),
        purpose=Purpose.SUSPEND,
        repairs=", ".join(map(suspend_rules.write_path, started)) if is_again else "",
    )


def resume(child: Child) -> Suspend:
    """The step that lets an object go which has its definition: what was not that one's is put back, once."""
    record = read_record(child)
    theirs = read_fields(child, record.theirs) if record.is_awake else record.theirs
    back = {path: value for path, value in theirs.items() if not owns(child.ownership, path)}
    return Suspend(child=child, manifest=state(child, back), purpose=Purpose.RESUME)


def restore(child: Child) -> Suspend:
    """The step that has a suspended object run on as it was, whatever its definition is by now."""
    record = dataclasses.replace(read_record(child), is_awake=True)
    manifest = state(child, {**record.ours, **record.theirs}, record)
    return Suspend(child=child, manifest=manifest, purpose=Purpose.RESTORE)


def read_fields(child: Child, paths: Iterable[Path]) -> dict[Path, Any]:
    """These fields of an object as they are; None where they are not there."""
    return {path: suspend_rules.read(child.fields, path) for path in paths}


def state(child: Child, stated: Mapping[Path, Any], record: Record | None = None) -> Object:
    """The apply of these fields to that very object, and of what it is to remember; None is not stated."""
    metadata: Object = {"name": child.name, "uid": child.uid}
    if child.namespace:
        metadata["namespace"] = child.namespace
    if record is not None:
        metadata["annotations"] = {names.ANNOTATION_SUSPENDED: write_record(record)}
    manifest: Object = {"apiVersion": child.kind.api_version, "kind": child.kind.name, "metadata": metadata}
    for path, value in stated.items():
        place = manifest
        for key in path[:-1] if value is not None else ():
            place = place.setdefault(key, {})
        if value is not None:
            place[path[-1]] = value
    return manifest


def owns(found: Ownership | None, path: Path) -> bool:
    """Whether the object's definition holds the field."""
    if found is None:
        return False
    node: Any = ownership.read_fields(found)
    for key in path:
        node = node.get(f"f:{key}")
        if node is None:
            return False
        if ownership.is_leaf(node):
            return True
    return True


def reclaim(child: Child, finding: Finding) -> Finding:
    """What is left to others of a suspended object, less what suspending it took from its own definition."""
    ours = read_record(child).ours
    taken = tuple(lost for lost in finding.left if lost.place in ours)
    if not taken:
        return finding
    return Finding(left=tuple(lost for lost in finding.left if lost not in taken), taken=(*finding.taken, *taken))


def awaken(manifest: Object, child: Child, finding: Finding) -> Object:
    """The manifest, saying that the object is let go where its apply takes all back that suspending it has set."""
    record = read_record(child)
    left = {lost.place for lost in finding.left}
    if any(path in left or not is_stated(manifest, path) for path in (*record.ours, *record.theirs)):
        return manifest
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], names.ANNOTATION_SUSPENDED: AWAKE}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def is_stated(manifest: Object, path: Path) -> bool:
    """Whether the manifest has a value there."""
    return suspend_rules.read(manifest, path) is not None
