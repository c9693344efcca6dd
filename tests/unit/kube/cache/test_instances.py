"""Instances of a StackDefinition in the cache of Stacks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hearth.kube.cache import stack_cache
from hearth.model.kinds import Kind
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import InstanceForms

SITE = Kind(group="platform.example", version="v1", name="Site", plural="sites", namespaced=True)
TEMPLATE = {"parameters": {"size": {"type": "integer", "default": 1}, "key": {"type": "string", "sensitive": True}}}
REVISIONS = st.fixed_dictionaries(
    {"template": st.just(TEMPLATE)},
    optional={
        "account": st.fixed_dictionaries({"namespace": st.sampled_from("ab"), "name": st.sampled_from("cd")}),
        "boundary": st.sampled_from(["Namespace", "Cluster"]),
        "defaults": st.fixed_dictionaries({}, optional={"serviceAccountName": st.just("x"), "timeout": st.just("5m")}),
        "options": st.just(["serviceAccountName"]),
        "scale": st.just({"parameter": "size"}),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 9),
        "key": st.just({"secretKeyRef": {"name": "a", "key": "b"}}),
        "stack": st.fixed_dictionaries(
            {},
            optional={
                "paused": st.booleans(),
                "serviceAccountName": st.just("y"),
                "definitionRevision": st.integers(1, 3),
            },
        ),
    },
)


def make_raw(spec: dict[str, Any], *, version: int, status: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": "prod", "uid": "1", "generation": 1, "resourceVersion": str(version)}
    return {"apiVersion": SITE.api_version, "kind": SITE.name, "metadata": metadata, "spec": spec, "status": status}


@given(
    contents=st.lists(REVISIONS, min_size=1, max_size=3), spec=SPECS, last=st.integers(0, 3), phase=st.text(max_size=3)
)
def test_an_event_without_a_change_of_the_spec_keeps_all_that_the_spec_makes(
    contents: list[dict[str, Any]], spec: dict[str, Any], last: int, phase: str
) -> None:
    """What is kept of the record before is what a new process reads from the same object."""
    forms = InstanceForms("sites.platform.example")
    for number, content in enumerate(contents, 1):
        forms.by_number[number] = instance_form.make_form(forms.definition, number, instance_form.make_content(content))
    forms.current = len(contents)
    status = {"definitionRevision": last} if last else {}
    known = stack_cache.parse_instance(make_raw(spec, version=1, status=status), kind=SITE, forms=forms)
    after = make_raw(
        spec, version=2, status={**status, "definitionRevision": known.definition_revision, "phase": phase}
    )

    kept = stack_cache.parse_instance(after, kind=SITE, forms=forms, known=known)

    assert kept == stack_cache.parse_instance(after, kind=SITE, forms=forms)
