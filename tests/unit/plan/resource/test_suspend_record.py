"""Of a record on a suspended object only what this operator wrote for that very object is trusted."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.model import child, limits, names
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind
from hearth.plan.resource import suspend_object
from hearth.plan.resource.suspend_object import SuspendRecord
from hearth.plan.state.condition_types import ConditionType
from support.units import suspended
from support.units.suspended import RECORDS

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
STATEFUL_SET = Kind(group="apps", version="v1", name="StatefulSet", plural="statefulsets", namespaced=True)
REPLICAS = ("spec", "replicas")


def make(text: str | None, *, is_owned: bool = True, uid: str = "u", kind: Kind = DEPLOYMENT) -> Child:
    """An object with that annotation."""
    metadata: Object = {"name": "web", "namespace": "n", "uid": uid, "resourceVersion": "1"}
    metadata["annotations"] = {names.ANNOTATION_SUSPENDED: text} if text is not None else {}
    metadata["managedFields"] = [suspended.OWNED] if is_owned else []
    return child.parse_child({"metadata": metadata, "spec": {"replicas": 0}}, kind=kind, paths=[REPLICAS])


def sign(said: Object, **changes: Any) -> str:
    """The annotation, signed for the Deployment."""
    return suspended.sign(said, **{"uid": "u", "kind": DEPLOYMENT, **changes})


GOOD: Object = {"theirs": {"spec.replicas": 5}}


def test_a_record_of_our_own_is_trusted() -> None:
    """As it was written."""
    assert RECORDS.find(make(sign(GOOD))) == SuspendRecord(theirs={REPLICAS: 5})
    record = SuspendRecord(ours={REPLICAS: 2}, is_resumed=True)
    assert RECORDS.find(make(RECORDS.write(make(None), record))) == record
    assert RECORDS.describe(make(sign(GOOD))) == ()
    assert RECORDS.describe(make(None)) == RECORDS.describe(make("false")) == ()


ATTACK = {"theirs": {"spec.paused": True, "spec.template.spec.hostPID": True}}
OVERLAPPING = {"theirs": {"spec.minReadySeconds": 1, "spec.minReadySeconds.y": 2}}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(make(orjson.dumps(GOOD).decode()), id="unsigned"),
        pytest.param(make(orjson.dumps(ATTACK).decode()), id="any field"),
        pytest.param(make(orjson.dumps(OVERLAPPING).decode()), id="overlapping fields"),
        pytest.param(make(sign(GOOD), is_owned=False), id="written by another field manager"),
        pytest.param(make(sign(GOOD), uid="v"), id="copied from another object"),
        pytest.param(make(sign(GOOD), kind=STATEFUL_SET), id="copied from another kind"),
        pytest.param(make(sign(GOOD, stack_uid="s")), id="of another Stack"),
        pytest.param(make(sign(GOOD).replace("5", "6", 1)), id="another value"),
        pytest.param(make(sign({"theirs": {"spec.replicas": "5"}})), id="a text for a number"),
        pytest.param(make(sign({"theirs": {"spec.replicas": True}})), id="a truth value for a number"),
        pytest.param(make(sign({"theirs": {"spec.replicas": {"a": 1}}})), id="a map for a number"),
        pytest.param(make(sign({"theirs": [1]})), id="a list of fields"),
        pytest.param(make("{"), id="no JSON"),
        pytest.param(make("[]"), id="a list"),
        pytest.param(make("7"), id="a number"),
        pytest.param(make(""), id="nothing"),
        pytest.param(make("[" * 5_000), id="too deep"),
        pytest.param(make('{"signature": 7}'), id="a number for a signature"),
        pytest.param(make(sign({"theirs": {}, "x": "a" * limits.ANNOTATION_BYTES})), id="too long"),
    ],
)
def test_any_other_record_is_ignored_and_named(found: Child) -> None:
    """Nothing of it is written, regardless of what is done with the object."""
    assert (RECORDS.find(found), RECORDS.is_suspended(found), RECORDS.read(found)) == (None, False, SuspendRecord())
    (condition,) = RECORDS.describe(found)
    assert (condition.type, "hearth.dev/suspended-" in condition.message) == (
        ConditionType.SUSPEND_RECORD_INVALID,
        True,
    )
    for step in (suspend_object.resume(found, RECORDS), suspend_object.restore(found, RECORDS)):
        assert step.manifest.keys() == {"apiVersion", "kind", "metadata"}


def test_only_what_the_rule_of_the_kind_sets_is_written() -> None:
    """Also where the signature is ours."""
    found = make(sign({"theirs": {"spec.replicas": 5, "spec.template.spec.hostPID": True, "metadata.name": "x"}}))
    assert suspend_object.resume(found, RECORDS).manifest["spec"] == {"replicas": 5}


def test_of_a_kind_without_a_rule_nothing_is_written() -> None:
    """The rule may have been taken away since."""
    kind = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
    found = make(sign(GOOD, kind=kind), kind=kind)
    assert RECORDS.is_suspended(found)
    assert suspend_object.resume(found, RECORDS).manifest.keys() == {"apiVersion", "kind", "metadata"}
