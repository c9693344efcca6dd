"""What a child takes of memory, once a watch has brought it: the bytes that the whole process is promised to keep to."""

from __future__ import annotations

import gc
import hashlib
import tracemalloc
import uuid

import pytest

from hearth.kube.cache.child_cache import ChildCache
from hearth.model import names, sharding
from hearth.model.child import Object, Path
from support import virtual_time
from support.units import signing
from support.units.blueprints import HASHER
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_connection import DeafListener
from support.units.scripted_api.scripted_watch import CONFIG_MAP, ScriptedConnection, ServedKinds, Stream, list_end

CHILDREN = 500
BYTES_PER_CHILD = 1_280
OWNERSHIP, DATA = 768, 128
"""More bytes: where each states fields that no other does, which they are; and what is read of each."""
OF_A_STACK = 4


def make_child(number: int, *, has_own_keys: bool) -> Object:
    """A ConfigMap as an apply of ours leaves it, no part of which is another one's in memory."""
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
    """Bytes that a child takes in the caches. Of two measurements: a table of the whole process may grow during one."""
    return min(measure_once(first, paths=paths, has_own_keys=has_own_keys) for first in (0, CHILDREN))


def measure_once(first: int, *, paths: list[Path], has_own_keys: bool) -> float:
    """The same of the children from that number on, which a stream of its own bytes brought."""
    children = [make_child(number, has_own_keys=has_own_keys) for number in range(first, first + CHILDREN)]
    if not paths:
        # Then the server is asked for the metadata alone.
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
    """As parsed from the bytes of a watch, each on its own, with the index and all that the caches share."""
    assert measure(paths=paths, has_own_keys=has_own_keys) <= BYTES_PER_CHILD + more
