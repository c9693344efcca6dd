"""Objects that their users need not wait for, and the texts that name claims."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK, VOLUME_CLAIM
from hearth.plan.resource import unbound_claims
from hearth.plan.resource.unbound_claims import CLAIMS_UNBOUND
from hearth.plan.state.resource_status import Cause, ResourceState, ResourceStatus
from hearth.template.blueprint import Definition
from hearth.template.compiler import compiler
from support.units import blueprints
from support.units.blueprints import CONFIG_MAP, GADGET


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        pytest.param(None, [], id="no status"),
        pytest.param({"outputs": {"claim": "a", "size": 3, "more": ["b", {"c": "d"}]}}, ["a", "b", "d"], id="outputs"),
        pytest.param({"conditions": [{"type": "Ready"}], "outputs": None}, ["Ready"], id="conditions"),
    ],
)
def test_all_texts_of_a_status_may_be_names_of_claims(value: Any, texts: list[str]) -> None:
    assert sorted(unbound_claims.list_texts(value)) == sorted(texts)


PENDING: Object = {"phase": "Pending"}
INSTANCE: Object = {"observedDefinitionRevision": 1}


@pytest.mark.parametrize(
    ("kind", "status", "reason", "is_unbound"),
    [
        pytest.param(VOLUME_CLAIM, PENDING, "VolumePending", True, id="a claim"),
        pytest.param(VOLUME_CLAIM, {"phase": "Lost"}, "VolumeLost", False, id="a lost claim"),
        pytest.param(STACK, {}, CLAIMS_UNBOUND, True, id="a nested Stack"),
        pytest.param(STACK, {}, "Progressing", False, id="a nested Stack that waits for something else"),
        pytest.param(GADGET, INSTANCE, CLAIMS_UNBOUND, True, id="an instance"),
        pytest.param(GADGET, {}, CLAIMS_UNBOUND, False, id="an object of another controller"),
        pytest.param(CONFIG_MAP, PENDING, CLAIMS_UNBOUND, False, id="a kind without claims"),
    ],
)
def test_only_claims_and_the_stacks_around_them_may_lack_a_volume(
    kind: Kind, status: Object, reason: str, is_unbound: bool
) -> None:
    metadata = {"name": "a", "namespace": "default", "labels": {}, "annotations": {}}
    manifest = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    child = blueprints.make_child(manifest, kind=kind, uid="u-1", status=status)
    source = {"manifest": {"apiVersion": kind.api_version, "kind": kind.name}}
    if kind is STACK:
        source["manifest"]["spec"] = {"template": {"resources": {}}}  # type: ignore[assignment]  # any manifest
    definition = Definition(template={"resources": {"a": source}}, parameters={})
    served = blueprints.ServedKinds(kind)
    resource = compiler.compile_template(definition, stack=blueprints.STACK, kinds=served).resources["a"]

    def find(cause: Cause) -> bool:
        found = ResourceStatus(state=ResourceState.PROGRESSING, reason=reason, message="", child=child, cause=cause)
        return unbound_claims.is_unbound(child, found, resource)

    assert find(Cause.OTHER) is is_unbound
    assert not find(Cause.APPLYING)
