"""Fields that are removed from a definition, and the parts that remain. On the fake and on a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from contract import bench as benches
from contract.bench import CONFIG_MAP, OURS, PROBE, Bench
from contract.test_obstacles import SERVICE
from hearth.engine.writes import apply_preparation
from hearth.model.child import Child, FieldOwnership, Object
from hearth.model.kinds import Kind
from hearth.plan.retry.api_errors import MaybeImmutable
from hearth.plan.state.steps import Apply
from support.stories.world import Address

POD_TEMPLATE = Kind(group="", version="v1", name="PodTemplate", plural="podtemplates", namespaced=True)
DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def service(bench: Bench, **spec: Any) -> Object:
    return bench.manifest(SERVICE, "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}], **spec})


def deployment(bench: Bench, **pod: Any) -> Object:
    """A Deployment without Pods, with this Pod spec."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}], **pod}}
    return bench.manifest(
        DEPLOYMENT, "web", spec={"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    )


def pod_template(bench: Bench, **pod: Any) -> Object:
    spec = {"containers": [{"name": "web", "image": "web:1"}], **pod}
    return bench.manifest(POD_TEMPLATE, "web", template={"metadata": {"labels": {"app": "web"}}, "spec": spec})


async def change(
    bench: Bench, manifest: Object, child: Child, *, before: FieldOwnership | None = None
) -> MaybeImmutable | None:
    """Apply a changed definition, or return the remaining fields."""
    step = Apply(
        resource="web",
        kind=child.kind,
        ref=child.ref,
        manifest=manifest,
        hash="h",
        uid=child.uid,
        owned_before=before or child.ownership,
    )
    prepared = await apply_preparation.remove_leaving_fields(step, cluster=bench.cluster, manager=OURS)
    if isinstance(prepared, MaybeImmutable):
        return prepared
    await bench.cluster.apply(prepared.sent_manifest, kind=child.kind, manager=OURS, force=True)
    return None


async def test_what_only_the_operator_owns_leaves(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1", gone="2"))
    assert await change(bench, bench.config(a="1"), child) is None
    assert (await bench.live(bench.config()))["data"] == {"a": "1"}


async def test_what_another_client_owns_as_well_is_theirs(bench: Bench) -> None:
    child = await bench.apply(bench.config(a="1", gone="2"))
    await bench.cluster.apply(bench.config(gone="2"), kind=CONFIG_MAP, manager="theirs", force=True)
    assert await change(bench, bench.config(a="1"), child) is None
    assert (await bench.live(bench.config()))["data"] == {"a": "1", "gone": "2"}


@pytest.mark.parametrize("is_repaired", [True, False])
async def test_the_record_of_ownership_was_cleared(bench: Bench, *, is_repaired: bool) -> None:
    manifest = bench.config(a="1", gone="2")
    child = await bench.apply(manifest)
    before = child.ownership
    await bench.user.patch(Address.of(manifest), {"metadata": {"managedFields": [{}]}})
    if is_repaired:
        child = await bench.apply(manifest)
    assert await change(bench, bench.config(a="1"), child, before=before) is None
    assert (await bench.live(manifest))["data"] == {"a": "1"}
    again = await bench.live(manifest)
    assert str((await bench.apply(bench.config(a="1"))).resource_version) == again["metadata"]["resourceVersion"]


async def test_an_address_stays(bench: Bench) -> None:
    """The API server copies it from the old object, and would give a new object another address."""
    child = await bench.cluster.apply(service(bench, clusterIP="None"), kind=SERVICE, manager=OURS, force=True)
    found = await change(bench, service(bench), child)
    assert isinstance(found, MaybeImmutable)
    assert (found.fields, found.is_proven) == (("spec.clusterIP",), True)
    assert (await bench.live(service(bench)))["spec"]["clusterIP"] == "None"


async def test_an_address_that_the_server_could_have_chosen(bench: Bench) -> None:
    chosen = await bench.cluster.apply(service(bench), kind=SERVICE, manager=OURS, force=True)
    address = (await bench.live(service(bench)))["spec"]["clusterIP"]
    stated = await bench.cluster.apply(service(bench, clusterIP=address), kind=SERVICE, manager=OURS, force=True)
    assert await change(bench, service(bench, sessionAffinity="None"), stated) is None
    assert (await bench.live(service(bench)))["spec"]["clusterIP"] == address
    assert stated.uid == chosen.uid


async def test_the_same_field_under_another_name(bench: Bench) -> None:
    manifest = pod_template(bench, serviceAccountName="special")
    child = await bench.cluster.apply(manifest, kind=POD_TEMPLATE, manager=OURS, force=True)
    assert (await bench.live(manifest))["template"]["spec"]["serviceAccount"] == "special"
    assert await change(bench, pod_template(bench), child) is None
    again = await bench.live(manifest)
    assert not {"serviceAccount", "serviceAccountName"} & again["template"]["spec"].keys()
    repeated = await bench.cluster.apply(pod_template(bench), kind=POD_TEMPLATE, manager=OURS, force=True)
    assert str(repeated.resource_version) == again["metadata"]["resourceVersion"]


async def test_a_default_that_equals_what_left(bench: Bench) -> None:
    manifest = deployment(bench)
    manifest["spec"]["replicas"] = 1
    child = await bench.cluster.apply(manifest, kind=DEPLOYMENT, manager=OURS, force=True)
    del manifest["spec"]["replicas"]
    assert await change(bench, manifest, child) is None
    assert (await bench.live(manifest))["spec"]["replicas"] == 1


async def test_a_definition_is_checked_beside_its_object(bench: Bench) -> None:
    await bench.apply(bench.probe(replaceValue="x"))
    await bench.cluster.check_definition(bench.probe(replaceValue="y"), kind=PROBE)
    wrong = await benches.refused(bench.cluster.check_definition(bench.probe(readyAfter=-1), kind=PROBE))
    assert (wrong.code, wrong.causes) == (422, (("FieldValueInvalid", "spec.readyAfter"),))
    assert (await bench.live(bench.probe()))["spec"] == {"replaceValue": "x"}


async def test_a_created_object_has_what_the_server_fills(bench: Bench) -> None:
    found = await bench.cluster.create_dry_run(service(bench), kind=SERVICE)
    assert found["spec"]["clusterIP"] not in ("", "None")
    assert await bench.user.find(Address.of(service(bench))) is None
