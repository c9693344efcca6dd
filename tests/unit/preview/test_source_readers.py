"""The Stacks and StackDefinitions that read an object."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.kinds import ObjectRef
from hearth.preview import source_readers

READER = ObjectRef(group="hearth.dev", kind="Stack", namespace="ns", name="shop")


@pytest.mark.parametrize(
    ("spec", "group", "kind", "namespace"),
    [
        pytest.param({"templateRef": {"name": "a"}}, "", "ConfigMap", "ns", id="template"),
        pytest.param({"templateRefs": [{"name": "a"}]}, "", "ConfigMap", "ns", id="one of several templates"),
        pytest.param(
            {"templateRef": {"kind": "StackTemplate", "name": "a"}},
            "hearth.dev",
            "StackTemplate",
            "",
            id="StackTemplate",
        ),
        pytest.param({"parametersFrom": [{"secretRef": {"name": "a"}}]}, "", "Secret", "ns", id="parameters"),
        pytest.param({"kubeConfig": {"secretRef": {"name": "a"}}}, "", "Secret", "ns", id="kubeconfig"),
    ],
)
def test_a_stack_reads_the_objects_of_its_spec(spec: Any, group: str, kind: str, namespace: str) -> None:
    stack = {"kind": "Stack", "metadata": {"name": "shop", "namespace": "ns"}, "spec": spec}

    found = source_readers.find_readers([stack])

    source = ObjectRef(group=group, kind=kind, namespace=namespace, name="a")
    assert found.by_source == {source: [READER]}
    assert source_readers.is_source(source)


def test_a_definition_has_a_source_and_a_group() -> None:
    spec = {"templateRef": {"name": "a"}, "templateNamespace": "platform"}
    definition = {"kind": "StackDefinition", "metadata": {"name": "webapps.platform.example"}, "spec": spec}

    found = source_readers.find_readers([definition])

    source = ObjectRef(group="", kind="ConfigMap", namespace="platform", name="a")
    reader = ObjectRef(group="hearth.dev", kind="StackDefinition", namespace="", name="webapps.platform.example")
    assert (found.by_source, set(found.instance_groups)) == ({source: [reader]}, {"platform.example"})
