"""Every field of manifests of many kinds is changed by others on a real API server: each lost field is detected, and no
other.

The live object is the oracle. If a change persisted, Hearth must have lost a field; if the server restored the same
value (a default), it must not.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from hearth.model import child
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.real import raw_api
from support.real.raw_api import Answer, RawApi
from support.units import lost_fields, sample_manifests

Node: TypeAlias = tuple[str | int, ...]
"""A path into a manifest, with indexes into its lists."""

IDENTITY = {("metadata", "name"), ("metadata", "namespace"), ("apiVersion",), ("kind",), ("metadata",), ("spec",)}
KEYS = frozenset({"name", "containerPort", "port", "protocol", "mountPath"})
SETS = frozenset({"members"})
"""Key fields of list items, and sets: applying another key or member adds an item and changes none of ours."""


def nodes(value: Any, path: Node = ()) -> Iterator[Node]:
    """Every node of a manifest: leaf, map, list and list item."""
    if path and path not in IDENTITY:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield from nodes(held, (*path, key))


def read(value: Any, path: Node) -> Any:
    """The value at `path`."""
    for key in path:
        value = value[key]
    return value


def with_value(manifest: Object, path: Node, value: Any) -> Object:
    """`manifest` with another value at `path`; None removes the node."""
    changed = copy.deepcopy(manifest)
    holder = read(changed, path[:-1])
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return changed


def other(value: Any, *, kept: frozenset[str] = frozenset()) -> Any:
    """Another value of the same shape, likely to be acceptable; maps keep the values of the keys in `kept`."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return {"TCP": "UDP", "Always": "IfNotPresent", "Prefix": "Exact"}.get(value, value + "1")
        case dict():
            return {key: held if key in kept else other(held, kept=kept) for key, held in value.items()} or {"a": "x"}
        case list():
            return [other(item, kept=kept) for item in value]
    return "x"


def along(manifest: Object, path: Node) -> Object:
    """The smallest part of a manifest that contains the node at `path`: only the maps above it, but whole lists."""
    least: Object = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    least["metadata"] = {key: manifest["metadata"][key] for key in ("name", "namespace") if key in manifest["metadata"]}
    keys = tuple(itertools.takewhile(lambda key: isinstance(key, str), path))
    holder: Any = least
    for key in keys[:-1]:
        holder = holder.setdefault(key, {})
    if read(manifest, keys[:-1]).get(keys[-1]) is not None:
        holder[keys[-1]] = read(manifest, keys)
    return least


def pointer(path: Node) -> str:
    """A path as JSON patches write it."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)


@dataclass
class Bench:
    """One kind under test."""

    api: RawApi
    kind: Kind
    manifest: Object
    failures: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """Number of lost fields by the way of writing."""
    unchanged: int = 0
    serial: Iterator[int] = field(default_factory=itertools.count)

    def make(self) -> tuple[Object, Object]:
        """Create a fresh object; return its manifest and the live object."""
        manifest = copy.deepcopy(self.manifest)
        manifest["metadata"]["name"] += f"-{next(self.serial)}"
        answer = self.api.apply(manifest, kind=self.kind)
        assert answer.is_accepted, answer.body
        return manifest, answer.body

    def find_lost(self, manifest: Object, live: Object) -> str | None:
        """The verdict under test."""
        return lost_fields.find_first_lost(manifest, child.find_ownership(live))

    def judge(self, how: str, where: Node, *, manifest: Object, before: Object, answer: Answer) -> bool:
        """Compare the verdict with the object itself; return whether the object is still unchanged."""
        if not answer.is_accepted:
            return True
        lost = self.find_lost(manifest, answer.body)
        is_changed = stated(manifest, before) != stated(manifest, answer.body)
        if is_changed and lost is None:
            self.failures.append(f"missed: {how} of {pointer(where)}")
        if not is_changed and lost is not None:
            self.failures.append(f"false alarm: {how} of {pointer(where)}: {lost}")
        if is_changed:
            self.seen[how] += 1
        else:
            self.unchanged += 1
        return not is_changed and lost is None


def stated(wanted: Any, live: Any) -> Any:
    """The part of `live` that the manifest covers; controllers change other fields at any time."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        return {key: stated(value, live.get(key)) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        return [stated(one, other) for one, other in zip(wanted, live, strict=True)]
    return live


Tamper: TypeAlias = Callable[[Bench, Object, Object, Node, Any], Answer]


def by_merge_patch(bench: Bench, manifest: Object, live: Object, path: Node, value: Any) -> Answer:
    """As `kubectl patch --type=merge`."""
    body = along(with_value(manifest, path, value), path)
    if value is None and all(isinstance(key, str) for key in path):
        holder: Any = body
        for key in path[:-1]:
            holder = holder.setdefault(key, {})
        holder[path[-1]] = None
    return bench.api.send(
        "PATCH",
        raw_api.path_of(manifest, kind=bench.kind),
        body=body,
        content_type=raw_api.MERGE,
        fieldManager="kubectl-patch",
    )


def by_json_patch(bench: Bench, manifest: Object, live: Object, path: Node, value: Any) -> Answer:
    """As `kubectl patch --type=json`."""
    operation = {"op": "remove" if value is None else "replace", "path": pointer(path)}
    return bench.api.send(
        "PATCH",
        raw_api.path_of(manifest, kind=bench.kind),
        body=[operation if value is None else {**operation, "value": value}],
        content_type=raw_api.JSON_PATCH,
        fieldManager="kubectl-patch",
    )


def by_put(bench: Bench, manifest: Object, live: Object, path: Node, value: Any) -> Answer:
    """As `kubectl edit` or a controller's update."""
    body = with_value(live, path, value)
    where = raw_api.path_of(manifest, kind=bench.kind)
    # Some kinds refuse a PUT without a version, and controllers write at any time. Read and retry, as clients do.
    for _ in range(50):
        now = bench.api.get(manifest, kind=bench.kind).body
        body["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        answer = bench.api.send("PUT", where, body=body, fieldManager="controller")
        if answer.code != 409:
            return answer
    pytest.fail(f"{where} changes all the time: fifty updates in a row met another version")


def by_forced_apply(bench: Bench, manifest: Object, live: Object, path: Node, value: Any) -> Answer:
    """As `kubectl apply --server-side --force-conflicts`."""
    return bench.api.apply(along(with_value(manifest, path, value), path), kind=bench.kind, manager="kubectl")


TAMPERINGS: Mapping[str, Tamper] = {
    "merge patch": by_merge_patch,
    "JSON patch": by_json_patch,
    "PUT": by_put,
    "forced apply": by_forced_apply,
}


WRITES = ("merge patch", "JSON patch", "PUT")


def tamperings(manifest: Object) -> Iterator[tuple[str, Node, Any]]:
    """The tamperings of each node: the way, the path, and the new value (None: remove it).

    The three ways of writing alternate between nodes. Using all of them at every node finds the same losses in three
    times the time.
    """
    for turn, path in enumerate(nodes(manifest)):
        value = read(manifest, path)
        yield WRITES[turn % 3], path, other(value)
        yield WRITES[(turn + 1) % 3], path, None
        # An apply cannot remove fields that it does not own, so it can only change values.
        changed = other(value, kept=KEYS)
        is_key = any(isinstance(key, int) for key in path) and path[-1] in KEYS
        if changed != value and not is_key and not SETS & set(path):
            yield "forced apply", path, changed


@pytest.fixture
def bench(api: RawApi, namespace: str, request: pytest.FixtureRequest) -> Bench:
    """The bench for the kind of the row."""
    kind, manifest = request.param
    body = copy.deepcopy(manifest)
    if kind.namespaced:
        body["metadata"]["namespace"] = namespace
    else:
        body["metadata"]["name"] = sample_manifests.scoped_name(body, namespace)
    return Bench(api=api, kind=kind, manifest=body)


of_every_kind = pytest.mark.parametrize(
    "bench", [pytest.param(row, id=row[0].name) for row in sample_manifests.SHAPES], indirect=True
)


@of_every_kind
def test_every_tampering_is_seen(bench: Bench) -> None:
    """Every node, by merge patch, JSON patch, PUT and another manager's forced apply."""
    manifest, live = bench.make()
    assert bench.find_lost(manifest, live) is None
    for name, path, value in tamperings(bench.manifest):
        answer = TAMPERINGS[name](bench, manifest, live, path, value)
        if not bench.judge(name, path, manifest=manifest, before=live, answer=answer):
            manifest, live = bench.make()
        elif answer.is_accepted:
            live = answer.body
    print(f"{bench.kind.name}: {bench.seen.total()} seen, {bench.unchanged} changed nothing")
    assert bench.failures == []
    assert bench.seen.keys() == TAMPERINGS.keys()


@of_every_kind
def test_what_others_add_or_repeat_is_no_drift(bench: Bench) -> None:
    manifest, live = bench.make()
    path = raw_api.path_of(manifest, kind=bench.kind)
    added = {
        "metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs": "x"}, "finalizers": ["example.com/theirs"]}
    }
    answers = {
        "addition": bench.api.send("PATCH", path, body=added, content_type=raw_api.MERGE, fieldManager="kubectl"),
        "removal": bench.api.send(
            "PATCH",
            path,
            body={"metadata": {"labels": {"theirs": None}, "finalizers": None}},
            content_type=raw_api.MERGE,
            fieldManager="kubectl",
        ),
        # Use the server's spelling: it treats `1000m` as a different value from `1`.
        "same by apply": bench.api.apply(stated(manifest, live), kind=bench.kind, manager="kubectl", force=False),
        "same by PUT": by_put(bench, manifest, live, ("kind",), bench.kind.name),
        "ours again": bench.api.apply(manifest, kind=bench.kind),
        "co-owner withdraws": bench.api.apply(along(manifest, ("kind",)), kind=bench.kind, manager="kubectl"),
    }
    assert {name: answer.code for name, answer in answers.items() if not answer.is_accepted} == {}
    lost = {name: bench.find_lost(manifest, answer.body) for name, answer in answers.items()}
    assert {name: field for name, field in lost.items() if field is not None} == {}


ADDITIONS: Mapping[str, list[Object]] = {
    "Deployment": [
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "proxy", "image": "proxy:1"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "Z", "value": "1"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/ports/-", "value": {"name": "z", "containerPort": 81}},
        {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"restarted": "now"}},
    ],
    "Service": [
        {"op": "add", "path": "/spec/ports/-", "value": {"name": "z", "port": 81}},
        {"op": "add", "path": "/spec/externalIPs", "value": ["10.1.1.1"]},
    ],
    "ConfigMap": [{"op": "add", "path": "/data/z", "value": "1"}],
    "Shape": [
        {"op": "add", "path": "/spec/free/z", "value": 1},
        {"op": "add", "path": "/spec/named/z", "value": {"a": "1"}},
        {"op": "add", "path": "/spec/members/-", "value": "three"},
        {"op": "add", "path": "/spec/rules/-", "value": {"name": "z"}},
        {"op": "add", "path": "/spec/rules/0/free/z", "value": {"deep": 1}},
    ],
}


@pytest.mark.parametrize(
    "bench",
    [pytest.param(row, id=row[0].name) for row in sample_manifests.SHAPES if row[0].name in ADDITIONS],
    indirect=True,
)
def test_additions_beside_ours_are_no_drift(bench: Bench) -> None:
    manifest, _live = bench.make()
    path = raw_api.path_of(manifest, kind=bench.kind)
    for addition in ADDITIONS[bench.kind.name]:
        answer = bench.api.send("PATCH", path, body=[addition], content_type=raw_api.JSON_PATCH, fieldManager="kubectl")
        assert (answer.code, bench.find_lost(manifest, answer.body)) == (200, None), addition


METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@of_every_kind
def test_metadata_alone_show_what_others_changed(bench: Bench) -> None:
    manifest, live = bench.make()
    for path in nodes(bench.manifest):
        before = read(bench.manifest, path)
        value = other(before)
        if (
            not before
            or not isinstance(value, dict)
            or not by_merge_patch(bench, manifest, live, path, value).is_accepted
        ):
            continue
        slim = bench.api.send("GET", raw_api.path_of(manifest, kind=bench.kind), accept=METADATA_ONLY).body
        assert "spec" not in slim
        assert bench.find_lost(manifest, slim) is not None, pointer(path)
        manifest, live = bench.make()
    assert bench.find_lost(manifest, live) is None
