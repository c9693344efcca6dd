"""Any text in the annotation of a suspended object: it is not trusted, and the operator writes no part of it."""

from __future__ import annotations

from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from hearth.model import child, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.plan.ownership.field_ownership import DriftFinding
from hearth.plan.resource import suspend_object
from hearth.plan.resource.suspend_object import SuspendRecord
from support.units import fuzzing, suspended
from support.units.suspended import RECORDS

QUICK = settings(fuzzing.QUICK, max_examples=300)
LONG = settings(fuzzing.LONG, max_examples=100_000)
DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
JOB = Kind(group="batch", version="v1", name="Job", plural="jobs", namespaced=True)
APPLICATION = Kind(group="argoproj.io", version="v1alpha1", name="Application", plural="applications", namespaced=True)
ALLOWED = {
    DEPLOYMENT: {"replicas"},
    JOB: {"suspend"},
    APPLICATION: set[str](),
}
PATHS = st.sampled_from(
    [
        "spec.replicas",
        "spec.replicas.a",
        "spec.suspend",
        "spec.paused",
        "spec.template.spec.hostPID",
        "spec",
        "status.replicas",
        "metadata.name",
        "metadata.uid",
        "metadata.annotations[hearth.dev/suspended]",
        "metadata.annotations[argocd.argoproj.io/skip-reconcile]",
        "metadata.annotations[a]",
        "spec.containers[0]",
        "..",
        "",
    ]
) | st.text(max_size=10)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.lists(st.integers(0, 9), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2)
)
FIELDS = st.dictionaries(PATHS, VALUES, max_size=4) | VALUES
SAID = st.fixed_dictionaries({}, optional={"ours": FIELDS, "theirs": FIELDS, "awake": VALUES, "x": VALUES})
KINDS = st.sampled_from([DEPLOYMENT, JOB, APPLICATION])


def make(text: str, kind: Kind, *, is_owned: bool) -> Child:
    """An object with that annotation."""
    metadata: Object = {"name": "web", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    metadata["annotations"] = {names.ANNOTATION_SUSPENDED: text}
    metadata["managedFields"] = [suspended.OWNED] if is_owned else []
    return child.parse_child({"metadata": metadata, "spec": {"replicas": 0}}, kind=kind, paths=[("spec", "replicas")])


def look(said: Any, kind: Kind, *, is_signed: bool, is_owned: bool) -> None:
    """All that is done with an object that has it."""
    text = suspended.sign(said, uid="u", kind=kind) if is_signed and isinstance(said, dict) else None
    found = make(text or orjson.dumps(said).decode(), kind, is_owned=is_owned)
    if text is None or not is_owned:
        assert RECORDS.read(found) == SuspendRecord()
    rule = health_rules.DEFAULT_RULES.find_suspension(kind)
    assert rule is not None
    steps = [suspend_object.suspend(found, rule, RECORDS), suspend_object.resume(found, RECORDS)]
    steps.append(suspend_object.restore(found, RECORDS))
    for step in steps:
        orjson.dumps(step.manifest)
        assert step.manifest.keys() <= {"apiVersion", "kind", "metadata", "spec"}
        assert set(step.manifest.get("spec", {})) <= ALLOWED[kind]
        assert not any(isinstance(value, dict | list) for value in step.manifest.get("spec", {}).values())
        metadata = step.manifest["metadata"]
        assert (metadata["name"], metadata["uid"], metadata["namespace"]) == ("web", "u", "n")
        allowed = {names.ANNOTATION_SUSPENDED, *(path[2] for path in rule.sets if path[0] == "metadata")}
        assert set(metadata.get("annotations", {})) <= allowed
    RECORDS.describe(found)
    suspend_object.without_suspend_fields(found, DriftFinding(), RECORDS)
    suspend_object.mark_resumed({"metadata": {"annotations": {}}, "spec": {}}, found, DriftFinding(), RECORDS)


@hypothesis.given(said=SAID | VALUES, kind=KINDS, is_signed=st.booleans(), is_owned=st.booleans())
@QUICK
def test_any_record_is_harmless(said: Any, kind: Kind, *, is_signed: bool, is_owned: bool) -> None:
    look(said, kind, is_signed=is_signed, is_owned=is_owned)


@pytest.mark.soak
@hypothesis.given(said=SAID | VALUES, kind=KINDS, is_signed=st.booleans(), is_owned=st.booleans())
@LONG
def test_any_record_is_harmless_for_long(said: Any, kind: Kind, *, is_signed: bool, is_owned: bool) -> None:
    look(said, kind, is_signed=is_signed, is_owned=is_owned)


@hypothesis.given(text=st.text(max_size=60), kind=KINDS)
@QUICK
def test_any_text_is_harmless(text: str, kind: Kind) -> None:
    assert RECORDS.find(make(text, kind, is_owned=True)) is None
