"""The Stack as a whole: claims that must not be awaited, cycles, and what the user is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.importer.stack_assembly import Import
from hearth.model import errors

CLAIM = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: %s}}\n"
USER = (
    "{apiVersion: v1, kind: Pod, metadata: {name: user}, "
    "spec: {containers: [{}], volumes: [{persistentVolumeClaim: {claimName: data}}]}}\n"
)
STORAGE_CLASS = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: disk}, volumeBindingMode: %s}\n"


def assemble(*documents: str, name: str = "shop", namespace: str | None = None) -> Import:
    return stack_assembly.assemble(
        [SourceText(source="a.yaml", content="---\n".join(documents))], name=name, namespace=namespace
    )


def find_resources(*documents: str) -> dict[str, Any]:
    resources: dict[str, Any] = assemble(*documents).stack["spec"]["template"]["resources"]
    return resources


def test_every_manifest_becomes_a_resource() -> None:
    """And nothing else is in the Stack: what applies it says where it goes."""
    result = assemble("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")

    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert result.stack == {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop"},
        "spec": {"template": {"resources": {"a": {"manifest": manifest}}}},
    }


def test_a_namespace_is_stated_where_it_is_known() -> None:
    """Then the file applies to nowhere else."""
    result = assemble("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", namespace="prod")

    assert result.stack["metadata"] == {"name": "shop", "namespace": "prod"}


def test_resources_stand_in_the_order_of_the_files() -> None:
    """So that the two can be read side by side."""
    assert list(find_resources(USER, CLAIM % "disk")) == ["user", "data"]


@pytest.mark.parametrize(
    ("documents", "is_ready_at_once"),
    [
        pytest.param([CLAIM % "disk", USER], True, id="used, and its class is unknown"),
        pytest.param([CLAIM % "disk", USER, STORAGE_CLASS % "WaitForFirstConsumer"], True, id="its class waits"),
        pytest.param([CLAIM % "disk", USER, STORAGE_CLASS % "Immediate"], False, id="its class binds at once"),
        pytest.param([CLAIM % "disk"], False, id="it is unused"),
    ],
)
def test_a_claim_that_waits_for_its_pod_is_not_waited_for(documents: list[str], *, is_ready_at_once: bool) -> None:
    """Else each would wait for the other, for ever."""
    claim = find_resources(*documents)["data"]

    assert claim.get("readyWhen") == (["true"] if is_ready_at_once else None)


def test_a_cycle_is_opened_and_reported() -> None:
    """No kind that we know makes one, but custom ones may."""
    scaler = "{{apiVersion: keda.sh/v1, kind: ScaledObject, metadata: {{name: {0}}}, spec: {{scaleTargetRef: {{apiVersion: keda.sh/v1, kind: ScaledObject, name: {1}}}}}}}\n"

    result = assemble(scaler.format("a", "b"), scaler.format("b", "a"))

    resources = result.stack["spec"]["template"]["resources"]
    assert ["dependsOn" in resources[name] for name in ("a", "b")] == [False, True]
    assert result.warnings == ("a → b → a wait for each other; a no longer waits for b",)


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        pytest.param(
            "{apiVersion: batch/v1, kind: Job, metadata: {generateName: migrate-}}",
            "a.yaml, document 1 (line 1): Job has no name; its object is named after the Stack and the resource",
            id="no name",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: a, ownerReferences: [{controller: true}]}}",
            "a.yaml, document 1 (line 1): Pod a is owned by another object, which creates it; remove it",
            id="owned",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {helm.sh/hook: test}}}",
            "a.yaml, document 1 (line 1): Pod a is a Helm hook; Hearth treats it as an ordinary resource",
            id="hook",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Namespace, metadata: {name: prod}}",
            "a.yaml, document 1 (line 1): Namespace prod is the namespace of the Stack itself, which would be "
            "deleted with it; remove it",
            id="own namespace",
        ),
    ],
)
def test_what_may_not_be_meant_is_reported(document: str, warning: str) -> None:
    """And imported all the same."""
    result = assemble(document, namespace="prod")

    assert result.warnings == (warning,)
    assert len(result.stack["spec"]["template"]["resources"]) == 1


def test_more_manifests_than_a_stack_holds_are_refused() -> None:
    """Before the API server does, and with the way out."""
    many = [f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{number}}}}}\n" for number in range(10_001)]

    with pytest.raises(errors.InvalidDefinition) as caught:
        assemble(*many)

    assert (
        str(caught.value)
        == "a.yaml: 10001 manifests are too many for one Stack, which can hold 10000; import fewer files at once"
    )
