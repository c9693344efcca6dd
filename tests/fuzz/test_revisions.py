"""Any ControllerRevision, Lease or key Secret: reading it raises only documented errors, and its contents are never
trusted.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from hearth.engine import verified_revisions
from hearth.engine.cluster_objects import Revision
from hearth.engine.definition import stored_definition
from hearth.kube import management_cluster
from hearth.kube.leader_election import leases
from hearth.kube.objects import controller_revision
from hearth.model import errors, limits, names
from hearth.model.child import Object
from support.units import fuzzing, stack_objects
from support.units.stack_objects import HASHES

QUICK = settings(fuzzing.QUICK, max_examples=200)
LONG = settings(fuzzing.LONG, max_examples=50_000)
STACK = stack_objects.make_stack()
DEFINITION: Object = {
    "template": {"resources": {"a": {"manifest": {"kind": "ConfigMap"}}}},
    "parameters": {"size": 1.5},
}
GENUINE = verified_revisions.sign(
    Revision(
        name="shop-x",
        number=3,
        hash=stored_definition.hash_record(DEFINITION, HASHES.of_stack("u")),
        kinds=frozenset({"v1/ConfigMap"}),
        namespace="a",
        owner="u",
    ),
    STACK,
    HASHES,
)

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
PACKED = st.binary(max_size=200).map(lambda raw: base64.b64encode(gzip.compress(raw)).decode())
DATA = (
    JSON
    | st.fixed_dictionaries({"compressed": PACKED | JSON})
    | st.fixed_dictionaries({"template": JSON, "parameters": JSON}, optional={"sensitive": JSON})
)
TEXTS = st.text(max_size=30) | st.sampled_from(["3", "9" * 30, "0", "-1", "٣", "v1/ConfigMap,", ",", GENUINE.hash])
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [names.ANNOTATION_HASH, names.ANNOTATION_KINDS, names.ANNOTATION_REVISION, names.ANNOTATION_SIGNATURE]
    ),
    TEXTS,
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        # No longer number is read from the annotation.
        "number": st.integers(min_value=0, max_value=10**limits.COUNT_DIGITS - 1),
        "hash": TEXTS,
        "kinds": st.frozensets(TEXTS, max_size=3),
        "namespace": TEXTS,
        "owner": TEXTS,
        "signature": TEXTS,
    },
)


def load(found: Revision) -> verified_revisions.RevisionSet:
    """Only that revision, sorted."""

    class Home:
        def revisions(self, _uid: str) -> tuple[Revision, ...]:
            return (found,)

    home: Any = Home()
    return verified_revisions.load(home, HASHES, STACK)


def look(data: Any, annotations: dict[str, str], changes: dict[str, Any]) -> None:
    """All that is read of a revision."""
    metadata = {"name": "shop-x", "namespace": "a", "annotations": annotations}
    assert load(controller_revision.parse_revision(metadata)).verified == ()
    changed = dataclasses.replace(GENUINE, **changes)
    assert load(changed).verified == ((changed,) if changed == GENUINE else ())
    try:
        read = controller_revision.parse_definition({"metadata": metadata, "data": data})
    except errors.TamperedRevision:
        return
    assert stored_definition.is_as_stored(read, GENUINE.hash, HASHES.of_stack("u")) == (read == DEFINITION)


@hypothesis.given(data=DATA, annotations=ANNOTATIONS, changes=CHANGES)
@QUICK
def test_no_forged_revision_counts(data: Any, annotations: dict[str, str], changes: dict[str, Any]) -> None:
    look(data, annotations, changes)


@pytest.mark.soak
@hypothesis.given(data=DATA, annotations=ANNOTATIONS, changes=CHANGES)
@LONG
def test_no_forged_revision_counts_for_long(data: Any, annotations: dict[str, str], changes: dict[str, Any]) -> None:
    look(data, annotations, changes)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_genuine_revision_counts(*, is_large: bool) -> None:
    definition = {**DEFINITION, "parameters": {"text": "ä" * 100_000}} if is_large else DEFINITION
    hashes = HASHES.of_stack("u")
    revision = dataclasses.replace(GENUINE, hash=stored_definition.hash_record(definition, hashes))
    stored = orjson.loads(
        orjson.dumps(
            controller_revision.make_objects(STACK, verified_revisions.sign(revision, STACK, HASHES), definition)[-1]
        )
    )
    assert len(load(controller_revision.parse_revision(stored["metadata"])).verified) == 1
    assert stored_definition.is_as_stored(controller_revision.parse_definition(stored), revision.hash, hashes)


@hypothesis.given(
    spec=JSON | st.dictionaries(st.sampled_from(["holderIdentity", "leaseDurationSeconds", "leaseTransitions"]), JSON)
)
@QUICK
def test_any_lease_is_read(spec: Any) -> None:
    found = leases.parse_lease({"metadata": {"resourceVersion": "1"}, "spec": spec})
    assert isinstance(found.holder, str)
    assert 0 <= found.seconds <= leases.MOST
    assert 0 <= found.transitions <= leases.MOST


@hypothesis.given(data=JSON | st.dictionaries(st.just(management_cluster.HASH_KEY_FIELD), JSON))
@QUICK
def test_any_key_secret_is_read_or_reported(data: Any) -> None:
    with pytest.raises(management_cluster.InvalidHashKey, match="restore it, or delete the Secret"):
        management_cluster.parse_hash_key({"data": data}, "hearth-system")


def test_many_kinds_are_no_work() -> None:
    annotations = {names.ANNOTATION_KINDS: "a," * 100_000}
    found = controller_revision.parse_revision({"name": "x", "namespace": "a", "annotations": annotations})
    assert load(found).kinds == ({"a", ""} if len(found.kinds) <= limits.REVISION_KINDS else frozenset())
