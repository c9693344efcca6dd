"""Random templates as values that are easily changed at random: drafts of resources, and edits of them.

Every draft gives a template without mistakes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies

from hearth.model.child import Object
from support.stateful import nested_manifests
from support.stories import probe_controller

NAMES = tuple("abcdefgh")
CLAIM = "PersistentVolumeClaim"
OBJECTS = frozenset({"probe", "config", "claim"})
"""Kinds without members, whose objects may have explicit names."""
CALLED = ("one", "two", "one-x", "two-y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One resource is used by another."""

    name: str
    by_name: bool = False
    """Whether the name of its object is used; otherwise, its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    kind: str = "probe"
    """`probe`, `config`, `claim`, or one with members of its own: `group`, `nested`, `remote`."""
    value: int = 1
    uses: tuple[Use, ...] = ()
    after: tuple[str, ...] = ()
    """Its `dependsOn`."""
    locked: int = 0
    """A value that cannot be changed in place; 0 for none."""
    ready_after: int = 0
    delete_after: int = 0
    fails: bool = False
    policy: str = ""
    """Its `updatePolicy.replace`; "" for the default."""
    keys: tuple[str, ...] | None = None
    """Collections only: the keys of the members; None for a single object."""
    batch: int = 0
    """Number of members that change at once; 0 for all."""
    size: int = 2
    """Groups only: the size."""
    called: str = ""
    """The explicit name of its object, independent of the resource's name. For a collection, the prefix of all names.
    """
    is_turned: bool = False
    """Whether the members of a collection with explicit names have other keys with the same names."""

    def list_names(self) -> set[tuple[str, str]]:
        """The kinds and explicit names of its objects."""
        if not self.called or self.kind not in OBJECTS:
            return set()
        if self.keys is None:
            return {(self.kind, self.called)}
        return {(self.kind, f"{self.called}-{key}") for key in self.keys}

    @property
    def needs(self) -> set[str]:
        """The resources that must be ready first."""
        return {use.name for use in self.uses} | set(self.after)


Drafts: TypeAlias = Mapping[str, Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of a template; numbers select from existing parts, so that it fits any template."""

    what: str
    at: int = 0
    other: int = 0
    number: int = 0


def tidy(drafts: Drafts) -> dict[str, Draft]:
    """The drafts without dangling or circular references; earlier references of a resource win."""
    kept: dict[str, Draft] = {}
    reached: dict[str, set[str]] = {name: set() for name in drafts}

    def may_need(name: str, needed: str) -> bool:
        if needed not in drafts or needed == name or name in reached[needed]:
            return False
        gained = {needed, *reached[needed]}
        for each, seen in reached.items():
            if each == name or name in seen:
                seen.update(gained)
        return True

    called: set[tuple[str, str]] = set()
    for name, draft in drafts.items():
        if called & draft.list_names():
            draft = dataclasses.replace(draft, called="")  # noqa: PLW2901 -- two resources never share an object
        called |= draft.list_names()
        uses = tuple(use for use in draft.uses if may_need(name, use.name))
        after = tuple(needed for needed in draft.after if may_need(name, needed))
        kept[name] = dataclasses.replace(draft, uses=uses, after=after)
    return kept


# ------------------------------------------------------------ templates


def make_template(drafts: Drafts) -> Object:
    """The template of these resources."""
    made: Object = {"resources": {name: make_resource(name, drafts) for name in drafts}}
    lists = {f"{name}Keys": declare(draft) for name, draft in drafts.items() if draft.keys is not None}
    if lists:
        made["parameters"] = lists
    return made


def declare(draft: Draft) -> Object:
    """The parameter with the elements of a collection."""
    keys = list(draft.keys or ())
    if not draft.list_names():
        return {"type": "array", "items": {"type": "string"}, "default": keys}
    elements = [{"key": f"t{key}" if draft.is_turned else key, "name": key} for key in keys]
    texts = {"key": {"type": "string"}, "name": {"type": "string"}}
    return {"type": "array", "items": {"type": "object", "properties": texts}, "default": elements}


def make_resource(name: str, drafts: Drafts) -> Object:
    """One resource as a template sets it."""
    draft = drafts[name]
    made: Object = {"manifest": MANIFESTS[draft.kind](draft, [refer(use, drafts) for use in draft.uses])}
    if draft.list_names():
        name_of = f"{draft.called}-${{item.name}}" if draft.keys is not None else draft.called
        made["manifest"]["metadata"] = {**made["manifest"].get("metadata", {}), "name": name_of}
    if draft.after:
        made["dependsOn"] = list(draft.after)
    policy: Object = {"replace": draft.policy} if draft.policy else {}
    if draft.kind in ("nested", "remote"):
        # A Stack cannot move to another cluster.
        policy = {"replace": draft.policy or "CreateFirst", "replaceOn": ["spec.kubeConfig"]}
    if draft.keys is not None:
        made |= {"forEach": f"params.{name}Keys", "key": "item.key" if draft.list_names() else "item"}
        policy |= {"rolling": {"maxBatchSize": draft.batch}} if draft.batch else {}
    if policy:
        made["updatePolicy"] = policy
    return made


def refer(use: Use, drafts: Drafts) -> str:
    """The expression that uses it."""
    used = drafts[use.name]
    path = "metadata.name" if use.by_name else VALUES[used.kind]
    if used.keys is None:
        return f"${{{use.name}.{path}}}"
    return f"${{{use.name}.map(each, string(each.{path})).join(',')}}"


def make_probe(draft: Draft, references: list[str]) -> Object:
    spec: Object = {"value": draft.value}
    if references:
        spec["value"], *rest = references
        spec["other"] = " ".join([str(draft.value), *rest])
    if draft.keys is not None:
        spec["other"] = f"{spec.get('other', '')} ${{key}}"
    if draft.locked:
        spec["replaceValue"] = draft.locked
    if draft.ready_after:
        spec["readyAfter"] = draft.ready_after
    if draft.fails:
        spec["fails"] = "as written"
    if draft.delete_after:
        spec["deleteAfter"] = draft.delete_after
    return probe_controller.manifest(spec)


def make_config(draft: Draft, references: list[str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": write_out(draft, references)}}


def make_claim(draft: Draft, references: list[str]) -> Object:
    """The manifest of a claim, whose object holds data."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": f"class{draft.locked}",
        "resources": {"requests": {"storage": f"{draft.value}Gi"}},
    }
    metadata = {"annotations": {"uses": " ".join(["these", *references])}}
    return {"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec}


def make_group(draft: Draft, references: list[str]) -> Object:
    return nested_manifests.make_group(write_out(draft, references), size=draft.size, batch=draft.batch)


def make_nested(draft: Draft, references: list[str]) -> Object:
    """The manifest of a nested stack."""
    return nested_manifests.make_stack(write_out(draft, references), ready_after=draft.ready_after)


def make_remote(draft: Draft, references: list[str]) -> Object:
    """The manifest of a nested stack whose objects are in another cluster."""
    made = nested_manifests.make_stack(write_out(draft, references), ready_after=draft.ready_after)
    return {**made, "spec": {**made["spec"], "kubeConfig": {"secretRef": {"name": nested_manifests.CLUSTER}}}}


def write_out(draft: Draft, references: list[str]) -> str:
    """The value of a resource and all that it uses, in one text; of a member of a collection also its key."""
    return " ".join([f"v{draft.value}", *references, *(["${key}"] if draft.keys is not None else [])])


MANIFESTS: Mapping[str, Callable[[Draft, list[str]], Object]] = {
    "probe": make_probe,
    "config": make_config,
    "claim": make_claim,
    "group": make_group,
    "nested": make_nested,
    "remote": make_remote,
}
VALUES = {
    "probe": "status.value",
    "config": "data.v",
    "claim": "metadata.name",
    "group": "status.readyReplicas",
    "nested": "status.outputs.v",
    "remote": "status.outputs.v",
}
"""The value that other resources use, by kind of the resource."""


# ------------------------------------------------------------ edits


def edit(drafts: Drafts, change: Edit) -> dict[str, Draft]:
    """The drafts after one change."""
    changed = {**EDITS, **TREE_EDITS, **NAME_EDITS}[change.what](dict(drafts), change)
    return tidy(changed)


def _add(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    free = [name for name in NAMES if name not in drafts]
    if not free:
        return drafts
    names = sorted(drafts)
    kind = ("probe", "probe", "probe", "config", "claim")[change.number % 5]
    uses = (Use(name=names[change.other % len(names)], by_name=change.number % 2 == 0),) if names else ()
    draft = Draft(
        kind=kind, value=change.number + 1, uses=uses if change.at % 3 else (), ready_after=change.number % 4 * 3
    )
    return {**drafts, free[change.at % len(free)]: draft}


def _remove(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    doomed = _find(drafts, change.at)
    return {name: draft for name, draft in drafts.items() if name != doomed}


def _rename(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    free = [name for name in NAMES if name not in drafts]
    old = _find(drafts, change.at)
    if not free or old is None:
        return drafts
    new = free[change.other % len(free)]

    def call(name: str) -> str:
        return new if name == old else name

    return {
        call(name): dataclasses.replace(
            draft,
            uses=tuple(dataclasses.replace(use, name=call(use.name)) for use in draft.uses),
            after=tuple(call(each) for each in draft.after),
        )
        for name, draft in drafts.items()
    }


def _invert(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    """Reverse a dependency."""
    pairs = [(name, use) for name, draft in sorted(drafts.items()) for use in draft.uses]
    if not pairs:
        return drafts
    name, use = pairs[change.at % len(pairs)]
    user, used = drafts[name], drafts[use.name]
    kept = tuple(each for each in user.uses if each.name != use.name)
    after = tuple(each for each in user.after if each != use.name)
    turned = dataclasses.replace(used, uses=(dataclasses.replace(use, name=name), *used.uses))
    return {**drafts, name: dataclasses.replace(user, uses=kept, after=after), use.name: turned}


def _use(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    """One resource uses another from now on."""
    user, used = _find(drafts, change.at), _find(drafts, change.other)
    if user is None or used is None or user == used or used in {use.name for use in drafts[user].uses}:
        return drafts
    use = Use(name=used, by_name=change.number % 2 == 0)
    return {**drafts, user: dataclasses.replace(drafts[user], uses=(*drafts[user].uses, use)[-2:])}


def _follow(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    """One resource comes after another from now on, without using it."""
    user, used = _find(drafts, change.at), _find(drafts, change.other)
    if user is None or used is None or user == used:
        return drafts
    return {**drafts, user: dataclasses.replace(drafts[user], after=(used,))}


def _drop(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    """Remove all requirements of one resource."""
    name = _find(drafts, change.at)
    return drafts if name is None else {**drafts, name: dataclasses.replace(drafts[name], uses=(), after=())}


def _set(field: str, choose: Callable[[int], Any]) -> Callable[[dict[str, Draft], Edit], dict[str, Draft]]:
    def change_it(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
        name = _find(drafts, change.at)
        if name is None:
            return drafts
        return {**drafts, name: dataclasses.replace(drafts[name], **{field: choose(change.number)})}

    return change_it


def _find(drafts: dict[str, Draft], number: int) -> str | None:
    names = sorted(drafts)
    return names[number % len(names)] if names else None


def _exchange(drafts: dict[str, Draft], change: Edit) -> dict[str, Draft]:
    """Two resources exchange the names of their objects."""
    one, other = _find(drafts, change.at), _find(drafts, change.other)
    if one is None or other is None:
        return drafts
    first, second = drafts[one], drafts[other]
    exchanged = {
        one: dataclasses.replace(first, called=second.called),
        other: dataclasses.replace(second, called=first.called),
    }
    return {**drafts, **exchanged}


EDITS: Mapping[str, Callable[[dict[str, Draft], Edit], dict[str, Draft]]] = {
    "value": _set("value", lambda number: number + 1),
    "add": _add,
    "remove": _remove,
    "rename": _rename,
    "invert": _invert,
    "use": _use,
    "follow": _follow,
    "drop": _drop,
    "fails": _set("fails", lambda number: number % 2 == 1),
    "heal": _set("fails", lambda number: False),
    "locked": _set("locked", lambda number: number % 4),
    "policy": _set("policy", lambda number: ("CreateFirst", "", "DeleteFirst", "CreateFirst")[number % 4]),
    "readyAfter": _set("ready_after", lambda number: number % 4 * 5),
    "deleteAfter": _set("delete_after", lambda number: number % 2 * 4),
    "kind": _set("kind", lambda number: ("probe", "config", "claim")[number % 3]),
}

KEYS: tuple[tuple[str, ...] | None, ...] = (None, (), ("x",), ("y", "x"), ("x", "y", "z"), ("z", "w"))
TREE_EDITS: Mapping[str, Callable[[dict[str, Draft], Edit], dict[str, Draft]]] = {
    "keys": _set("keys", lambda number: KEYS[number % len(KEYS)]),
    "batch": _set("batch", lambda number: number % 3),
    "size": _set("size", lambda number: number % 5),
    "level": _set("kind", lambda number: ("group", "nested", "remote")[number % 3]),
}
"""Edits that make collections, groups and nested Stacks."""
NAME_EDITS: Mapping[str, Callable[[dict[str, Draft], Edit], dict[str, Draft]]] = {
    "called": _set("called", lambda number: ("", *CALLED)[number % 5]),
    "exchange": _exchange,
    "turned": _set("is_turned", lambda number: number % 2 == 1),
}
"""Edits that move objects with explicit names to other resources."""

SMALL = strategies.integers(0, 7)
edits = strategies.builds(Edit, what=strategies.sampled_from(tuple(EDITS)), at=SMALL, other=SMALL, number=SMALL)
changes = strategies.lists(edits, min_size=1, max_size=3)
tree_edits = strategies.builds(
    Edit, what=strategies.sampled_from(tuple(TREE_EDITS)), at=SMALL, other=SMALL, number=SMALL
)
tree_changes = strategies.lists(strategies.one_of(tree_edits, tree_edits, edits), min_size=1, max_size=3)

name_edits = strategies.builds(
    Edit,
    what=strategies.sampled_from((*NAME_EDITS, "rename", "rename", "keys", "kind", "remove")),
    at=SMALL,
    other=SMALL,
    number=SMALL,
)
name_changes = strategies.lists(strategies.one_of(name_edits, name_edits, edits), min_size=1, max_size=3)


def build(growth: list[Edit]) -> dict[str, Draft]:
    """The drafts after applying these edits to nothing."""
    drafts: dict[str, Draft] = {}
    for each in growth:
        drafts = edit(drafts, each)
    return drafts


beginnings = strategies.lists(
    strategies.builds(Edit, what=strategies.just("add"), at=SMALL, other=SMALL, number=SMALL), min_size=1, max_size=8
).map(build)
tree_beginnings = strategies.tuples(beginnings, strategies.lists(tree_edits, min_size=3, max_size=8)).map(
    lambda both: functools.reduce(edit, both[1], both[0])
)
named_beginnings = strategies.tuples(beginnings, strategies.lists(name_edits, min_size=3, max_size=8)).map(
    lambda both: functools.reduce(edit, both[1], both[0])
)
