"""Memory of the child cache: a few bytes per child, as the memory limit of the process requires, and no needless
secrets.
"""

from __future__ import annotations

import gc
import hashlib
import tracemalloc
import types
import uuid
from collections.abc import Iterator

import pytest

from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.client import JSON
from hearth.kube.watch.reflector import METADATA
from hearth.model import names, sharding
from hearth.model.child import Object, Path
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.template.blueprint import Definition
from hearth.template.compiler import compiler
from support import virtual_time
from support.ports.silent_ports import DeafListener
from support.units import blueprints, signing
from support.units.blueprints import HASHER
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_watch import (
    CONFIG_MAP,
    ScriptedConnection,
    ServedKinds,
    Stream,
    elapse,
    event,
    list_end,
)
from support.virtual_time import in_virtual_time

CHILDREN = 500
BYTES_PER_CHILD = 1_280
OWNERSHIP, DATA = 768, 128
"""Extra bytes for unique ownership entries, and for the data that is read."""
OF_A_STACK = 4


def make_child(number: int, *, has_own_keys: bool) -> Object:
    """A ConfigMap after an apply by Hearth. It shares no memory with others."""
    stack, resource = f"shop-{number // OF_A_STACK}", f"settings{number % OF_A_STACK}"
    stack_uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, stack))
    name = f"{stack}-{resource}"
    digest = hashlib.sha256(name.encode()).hexdigest()
    annotations = {
        names.ANNOTATION_HASH: f"k{digest[:8]}:{digest[:32]}",
        names.ANNOTATION_IDENTITY: names.identity(
            stack_uid=stack_uid, group="", kind="ConfigMap", namespace="team-a", name=name
        ),
        names.ANNOTATION_INCARNATION: "1",
        names.ANNOTATION_REQUIRES: f"settings{number % OF_A_STACK - 1}/1",
    }
    labels = {
        names.LABEL_BUCKET: str(sharding.bucket_of(stack_uid)),
        names.LABEL_RESOURCE: resource,
        names.LABEL_STACK: stack,
        names.LABEL_STACK_UID: stack_uid,
    }
    keys = [f"{name}-{key}" if has_own_keys else key for key in ("colour", "greeting", "replicas")]
    stated = {
        "f:data": {".": {}, **{f"f:{key}": {} for key in keys}},
        "f:metadata": {
            "f:annotations": {f"f:{key}": {} for key in annotations},
            "f:labels": {f"f:{key}": {} for key in labels},
        },
    }
    entry = {"manager": f"hearth:team-a/{stack}", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "resourceVersion": str(10_000 + number),
        "creationTimestamp": f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        "labels": labels,
        "annotations": annotations,
        "managedFields": [{**entry, "time": "2026-01-01T00:00:00Z", "fieldsV1": stated}],
    }
    whole = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": dict.fromkeys(keys, f"of {name}")}
    return signing.sign(whole, kind=CONFIG_MAP, signer=HASHER)


def measure(*, paths: list[Path], has_own_keys: bool = False) -> float:
    """Bytes that a child takes in the caches.

    The minimum of two measurements, because a global table may grow during one.
    """
    return min(measure_once(first, paths=paths, has_own_keys=has_own_keys) for first in (0, CHILDREN))


def measure_once(first: int, *, paths: list[Path], has_own_keys: bool) -> float:
    """The same for children from that number on, received as separate bytes."""
    children = [make_child(number, has_own_keys=has_own_keys) for number in range(first, first + CHILDREN)]
    if not paths:
        # Then only metadata is requested from the server.
        children = [{"kind": "PartialObjectMetadata", "metadata": child["metadata"]} for child in children]
    stream = Stream(*(scripted_watch.event("ADDED", child) for child in children), list_end(10_000 + CHILDREN))
    caches = ChildCache(
        ScriptedConnection(streams=[stream]), ServedKinds(), DeafListener(), options=scripted_watch.RULES
    )
    caches.trust(HASHER)

    async def load() -> int:
        caches.follow(CONFIG_MAP, paths)
        await caches.wait_synced()
        return sum(watch.objects for watch in caches.health())

    gc.collect()
    tracemalloc.start()
    try:
        assert virtual_time.run(load) == CHILDREN
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / CHILDREN
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("paths", "has_own_keys", "more"),
    [
        pytest.param([], False, 0, id="nothing of them is read"),
        pytest.param([], True, OWNERSHIP, id="each states fields that no other does"),
        pytest.param([("data",)], False, DATA, id="their data is read"),
    ],
)
def test_a_child_takes_little_more_than_a_kibibyte(paths: list[Path], more: int, *, has_own_keys: bool) -> None:
    assert measure(paths=paths, has_own_keys=has_own_keys) <= BYTES_PER_CHILD + more


# The data of a Secret stays out of the process unless it is read.


SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
HIDDEN = "c3dvcmRmaXNo"
"""The data of the Secret, as the server returns it."""
UNSEEN = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)
"""References from the caches to everything else in the process."""


class Served(ServedKinds):
    """A cluster that serves Secrets."""

    def find(self, api_version: str, kind: str) -> Kind | None:
        """As the port says."""
        return SECRET if kind == "Secret" else super().find(api_version, kind)


def make_secret(version: int) -> Object:
    """The whole object, as the answer to an apply or in a list."""
    metadata = {
        "name": "shop-login",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": str(version),
        "labels": {names.LABEL_STACK_UID: "s1", names.LABEL_RESOURCE: "login"},
        "annotations": {"kept": "as-it-is"},
        "managedFields": [
            {"manager": "hearth:default/shop", "operation": "Apply", "fieldsV1": {"f:data": {"f:password": {}}}}
        ],
    }
    whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": HIDDEN}, "type": "Opaque"}
    return signing.sign(whole)


def find_wanted(used: str) -> frozenset[Path]:
    """The fields that are read of Secrets, for a Stack with one Secret and a reader of it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "swordfish"}}
    user = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"used": f"${{login.{used}}}"}}
    template = {"resources": {"login": {"manifest": secret}, "user": {"manifest": user}}}
    definition = Definition(template=template, parameters={})
    blueprint = compiler.compile_template(definition, stack=blueprints.STACK, kinds=Served())
    return health_rules.find_watched_fields(blueprint, Served(), health_rules.HealthRules())[SECRET]


def find_texts(root: object) -> Iterator[str]:
    """Every text that is reachable from an object, including texts stored as bytes."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            yield each if isinstance(each, str) else each.decode(errors="replace")
        for inner in gc.get_referents(each):
            if id(inner) not in seen and not isinstance(inner, UNSEEN):
                seen.add(id(inner))
                waiting.append(inner)


async def read(caches: ChildCache, *, used: str, way: str) -> set[str]:
    """Every text in the caches after a whole Secret was received in that way."""
    caches.follow(SECRET, find_wanted(used))
    await elapse(0.5)
    if way == "an apply":
        caches.put(make_secret(7), SECRET)
    else:
        caches.take_list([make_secret(7)], kind=SECRET, stack_uid="s1", as_of=7)
    (child,) = caches.children_of("s1", "login")
    assert child.resource_version == 7
    return set(find_texts(caches))


@pytest.mark.parametrize("way", ["an apply", "a list"])
@pytest.mark.parametrize(
    ("used", "accept", "is_kept"),
    [
        pytest.param("metadata.name", METADATA, False, id="its name is used"),
        pytest.param("data.password", JSON, True, id="what it holds is used"),
    ],
)
@in_virtual_time
async def test_what_a_secret_holds_is_kept_only_where_it_is_used(
    used: str, accept: str, way: str, *, is_kept: bool
) -> None:
    shown = make_secret(3) if is_kept else {"metadata": make_secret(3)["metadata"]}
    connection = ScriptedConnection(streams=[Stream(event("ADDED", shown), list_end(5))])
    caches = ChildCache(connection, Served(), DeafListener(), options=scripted_watch.RULES)
    caches.trust(signing.Trusting())
    texts = await read(caches, used=used, way=way)
    assert [question.accept for question in connection.asked] == [accept]
    assert any("as-it-is" in text for text in texts)
    assert any(HIDDEN in text for text in texts) == is_kept
