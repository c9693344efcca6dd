"""Names of resources: always valid and unique, and readable if possible."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from hearth.cli.importer import resource_naming
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.model import names
from hearth.model.api import stack


def name_all(*objects: str) -> list[str]:
    """The names of objects written as `Kind/name` or `Kind/namespace/name`."""
    return resource_naming.name_all([make_document(*written.split("/")) for written in objects])


def make_document(kind: str, *where: str) -> ManifestDocument:
    metadata = dict(zip(("name", "namespace"), reversed(where), strict=False))
    return ManifestDocument(manifest={"apiVersion": "v1", "kind": kind, "metadata": metadata}, place="")


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(["Deployment/redis-master"], ["redisMaster"], id="camel case"),
        pytest.param(
            ["Service/redis-master", "Deployment/redis-master"],
            ["redisMasterService", "redisMaster"],
            id="the workload keeps the bare name, wherever it stands",
        ),
        pytest.param(
            ["Deployment/web", "Service/web", "ServiceAccount/web", "ConfigMap/web"],
            ["web", "webService", "webServiceAccount", "webConfigMap"],
            id="one name, four kinds",
        ),
        pytest.param(["Service/web", "Ingress/web"], ["web", "webIngress"], id="no workload: the first keeps it"),
        pytest.param(
            ["Job/web", "StatefulSet/web"], ["webJob", "web"], id="the more important of two workloads keeps it"
        ),
        pytest.param(
            ["Deployment/blue/web", "Deployment/green/web"], ["webBlue", "webGreen"], id="one kind, two namespaces"
        ),
        pytest.param(
            ["Deployment/blue/web", "Service/blue/web", "Deployment/green/web", "Service/green/web"],
            ["webDeploymentBlue", "webServiceBlue", "webDeploymentGreen", "webServiceGreen"],
            id="two of each",
        ),
        pytest.param(["Role/a:b", "Role/a.b"], ["aB", "aB2"], id="a number at last"),
        pytest.param(["Role/a:b", "Role/a.b", "Role/a-b-2"], ["aB", "aB3", "aB2"], id="a number that is free"),
        pytest.param(["ConfigMap/params"], ["paramsConfigMap"], id="reserved"),
        pytest.param(["Service/3scale"], ["n3scale"], id="begins with a digit"),
        pytest.param(["Job", "Job"], ["job", "job2"], id="no name"),
        pytest.param(["APIService/---"], ["apiService"], id="nothing to use"),
        pytest.param(["CustomResourceDefinition/lamps.example.org"], ["lamps"], id="the group says nothing here"),
        pytest.param(["ClusterRole/system:aggregate-to-view"], ["systemAggregateToView"], id="signs part words"),
        pytest.param(
            ["Deployment/" + "x" * 50, "HorizontalPodAutoscaler/" + "x" * 50],
            ["x" * 40, "x" * 17 + "HorizontalPodAutoscaler"],
            id="too long: the end of the name goes, the kind stays",
        ),
    ],
)
def test_names(objects: list[str], expected: list[str]) -> None:
    assert name_all(*objects) == expected


@hypothesis.given(
    strategies.lists(
        strategies.tuples(
            strategies.sampled_from(["Deployment", "Service", "Job", "X", "IPAddressClaimOfAnExtraordinaryLength" * 2]),
            strategies.sampled_from(["", "blue", "green"]),
            strategies.text(alphabet="aA1-.:é", max_size=45) | strategies.sampled_from(stack.RESERVED_NAMES),
        ),
        max_size=12,
    )
)
def test_names_are_unique_and_keep_to_the_rule(objects: list[tuple[str, str, str]]) -> None:
    found = resource_naming.name_all([make_document(*written) for written in objects])

    assert len(found) == len(objects)
    assert len(set(found)) == len(found)
    assert [name for name in found if not names.RESOURCE_NAME.fullmatch(name)] == []
    assert not set(found) & set(stack.RESERVED_NAMES)
