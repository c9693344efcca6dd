"""The assembled Stack: claims that must not be awaited, cycles, warnings, and how a large Stack is split."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.importer.stack_assembly import Import
from hearth.engine.definition import definition_sources
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import ManagementCluster
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition
from hearth.model.kinds import ObjectRef

CLAIM = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: %s}}\n"
USER = (
    "{apiVersion: v1, kind: Pod, metadata: {name: user}, "
    "spec: {containers: [{}], volumes: [{persistentVolumeClaim: {claimName: data}}]}}\n"
)
STORAGE_CLASS = "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: disk}, volumeBindingMode: %s}\n"


def assemble(*documents: str, name: str = "shop", namespace: str | None = None) -> Import:
    return stack_assembly.assemble(
        [SourceText(source="a.yaml", content="\n---\n".join(documents))], name=name, namespace=namespace
    )


def find_resources(*documents: str) -> dict[str, Any]:
    resources: dict[str, Any] = assemble(*documents).stack["spec"]["template"]["resources"]
    return resources


def test_every_manifest_becomes_a_resource() -> None:
    result = assemble("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")

    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert result.stack == {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop"},
        "spec": {"template": {"resources": {"a": {"manifest": manifest}}}},
    }


def test_a_namespace_is_stated_where_it_is_known() -> None:
    result = assemble("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", namespace="prod")

    assert result.stack["metadata"] == {"name": "shop", "namespace": "prod"}


def test_resources_stand_in_the_order_of_the_files() -> None:
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
    claim = find_resources(*documents)["data"]

    assert claim.get("readyWhen") == (["true"] if is_ready_at_once else None)


def test_a_cycle_is_opened_and_reported() -> None:
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
            "a.yaml, document 1 (line 1): Job has generateName, which creates a new object each time; its object is "
            "named "
            "after the Stack and the resource",
            id="generateName",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: Job}",
            "a.yaml, document 1 (line 1): Job has no name; its object is named after the Stack and the resource",
            id="no name",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {helm.sh/hook: post-install}}}",
            "a.yaml, document 1 (line 1): Pod a is a hook of Helm; Hearth treats it as an ordinary resource",
            id="hook of Helm",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: a, annotations: {argocd.argoproj.io/hook: PreSync}}}",
            "a.yaml, document 1 (line 1): Pod a is a hook of Argo CD; Hearth treats it as an ordinary resource",
            id="hook of Argo CD",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Namespace, metadata: {name: prod}}",
            "a.yaml, document 1 (line 1): Namespace prod is the Stack's own namespace and would be deleted with the "
            "Stack; remove it",
            id="own namespace",
        ),
    ],
)
def test_what_may_not_be_meant_is_reported(document: str, warning: str) -> None:
    result = assemble(document, namespace="prod")

    assert result.warnings == (warning,)
    assert len(result.stack["spec"]["template"]["resources"]) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("{x: " + "y" * 9_000 + "}", "produces a template of .* bytes, but the limit is 16777216", id="bytes"),
        pytest.param("{" + ", ".join(f"k{at}: x" for at in range(125)) + "}", "contains more than 250000 values", id="values"),
    ],
)  # fmt: skip
def test_what_is_too_large_for_a_stack_is_refused(data: str, message: str) -> None:
    many = (f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{at}}}, data: {data}}}\n" for at in range(2_000))
    with pytest.raises(errors.InvalidDefinition, match=f"a.yaml: {message}"):
        assemble("---\n".join(many))


def test_a_key_like_an_expression_is_refused() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '${y}', '${y}': z}\n"
    stack = "apiVersion: hearth.dev/v1alpha1\nkind: Stack\nmetadata: {name: a}\nspec: {template: {'${y}': z}}\n"
    assert assemble(stack).stack["spec"]["template"]["resources"]
    with pytest.raises(errors.InvalidDefinition) as caught:
        assemble(config)
    assert str(caught.value) == (
        "a.yaml, document 1 (line 1): data[${y}]: the key contains ${, which starts an expression; keys cannot "
        "contain expressions"
    )


def test_more_manifests_than_a_stack_holds_are_refused() -> None:
    many = [f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{number}}}}}\n" for number in range(10_001)]

    with pytest.raises(errors.InvalidDefinition) as caught:
        assemble(*many)

    assert (
        str(caught.value)
        == "a.yaml: 10001 manifests are too many for one Stack, which can hold 10000; import fewer files at once"
    )


OWNED = "{{apiVersion: {}, kind: {}, metadata: {{name: web-7d4, ownerReferences: [{{controller: true, kind: {}, name: web}}]}}}}"


def test_what_controllers_make_is_left_out() -> None:
    result = assemble(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{}]}}}}",
        OWNED.format("apps/v1", "ReplicaSet", "Deployment"),
        OWNED.format("v1", "Pod", "ReplicaSet"),
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}",
        "{apiVersion: v1, kind: Endpoints, metadata: {name: web}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt}}",
        "{apiVersion: v1, kind: Secret, metadata: {name: t}, type: kubernetes.io/service-account-token}",
    )

    assert list(result.stack["spec"]["template"]["resources"]) == ["web", "webService"]
    assert [warning.partition(": ")[2] for warning in result.warnings] == [
        "ReplicaSet web-7d4 is left out: its owner Deployment web creates it",
        "Pod web-7d4 is left out: its owner ReplicaSet web creates it",
        "Endpoints web is left out: Service web creates it",
        "ConfigMap kube-root-ca.crt is left out: the control plane creates it",
        "Secret t is left out: the control plane creates it",
    ]


def test_endpoints_of_a_service_without_selector_are_kept() -> None:
    service = "{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {ports: [{port: 5432}]}}"

    assert list(find_resources(service, "{apiVersion: v1, kind: Endpoints, metadata: {name: db}}")) == [
        "db",
        "dbEndpoints",
    ]


def test_an_import_of_nothing_but_such_objects_is_refused() -> None:
    with pytest.raises(errors.InvalidDefinition, match="cannot be imported: its owner ReplicaSet web creates it"):
        assemble(OWNED.format("v1", "Pod", "ReplicaSet"))


def test_the_stack_adopts_on_request() -> None:
    text = SourceText(source="a.yaml", content="{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    result = stack_assembly.assemble([text], name="shop", namespace=None, adopts=True)

    assert result.stack["spec"]["adoptionPolicy"] == "Adopt"


def annotated(kind: str, name: str, **annotations: str) -> str:
    """A manifest with these annotations."""
    return f"{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}, annotations: {json.dumps(annotations)}}}}}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("helm.sh/resource-policy", "keep", id="Helm"),
        pytest.param("helm.sh/resource-policy", " Keep ", id="Helm trims, and ignores the case"),
        pytest.param("argocd.argoproj.io/sync-options", "Prune=false", id="Argo CD"),
        pytest.param("argocd.argoproj.io/sync-options", "ServerSideApply=true, Delete=false ,Replace=true", id="a list"),
        pytest.param("kustomize.toolkit.fluxcd.io/prune", "disabled", id="Flux"),
        pytest.param("kustomize.toolkit.fluxcd.io/prune", "Disabled", id="Flux ignores the case"),
        pytest.param("kapp.k14s.io/delete-strategy", "orphan", id="kapp"),
        pytest.param("cli-utils.sigs.k8s.io/on-remove", "keep", id="kpt"),
        pytest.param("client.lifecycle.config.k8s.io/deletion", "detach", id="Config Sync"),
        pytest.param("pulumi.com/retainOnDelete", "true", id="Pulumi"),
    ],
)  # fmt: skip
def test_what_another_tool_keeps_is_kept(key: str, value: str) -> None:
    result = assemble(annotated("PersistentVolumeClaim", "data", **{key: value}))

    (resource,) = result.stack["spec"]["template"]["resources"].values()
    assert resource["deletionPolicy"] == "Retain"
    called = "a.yaml, document 1 (line 1): PersistentVolumeClaim data"
    assert result.notes[0] == f"{called} is kept when the Stack is deleted: {key}: {value.strip()}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("helm.sh/resource-policy", "delete", id="another policy"),
        pytest.param("argocd.argoproj.io/sync-options", "Prune=true", id="the opposite"),
        pytest.param("argocd.argoproj.io/sync-options", "XPrune=false", id="another option"),
        pytest.param("kustomize.toolkit.fluxcd.io/prune", "enabled", id="enabled"),
        pytest.param("kapp.k14s.io/delete-strategy", "", id="nothing"),
        pytest.param("example.com/resource-policy", "keep", id="another tool"),
    ],
)
def test_what_none_keeps_is_not_kept(key: str, value: str) -> None:
    assert "deletionPolicy" not in find_resources(annotated("PersistentVolumeClaim", "data", **{key: value}))["data"]


def test_flux_has_it_as_a_label_too() -> None:
    labeled = (
        "{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {kustomize.toolkit.fluxcd.io/prune: disabled}}}"
    )

    assert find_resources(labeled)["a"]["deletionPolicy"] == "Retain"


def test_what_holds_a_kept_object_is_kept_with_it() -> None:
    definition = (
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: dbs.example.com}, "
        "spec: {group: example.com, scope: Namespaced, names: {kind: Db, plural: dbs}}}"
    )
    kept = (
        "{apiVersion: example.com/v1, kind: Db, metadata: {name: main, namespace: prod, "
        "annotations: {helm.sh/resource-policy: keep}}}"
    )
    namespaces = [f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}" for name in ("prod", "test")]

    result = assemble(definition, kept, *namespaces)

    found = result.stack["spec"]["template"]["resources"]
    assert {name: each.get("deletionPolicy") for name, each in found.items()} == {
        "dbs": "Retain", "main": "Retain", "prod": "Retain", "test": None
    }  # fmt: skip
    assert result.notes[0].endswith(
        "CustomResourceDefinition dbs.example.com is kept when the Stack is deleted: Db main would be deleted with it"
    )


def test_what_another_tool_would_heed_is_named_once() -> None:
    waves = [annotated("ConfigMap", name, **{"argocd.argoproj.io/sync-wave": "5"}) for name in "ab"]
    forced = annotated("ConfigMap", "c", **{"argocd.argoproj.io/sync-options": "Replace=true,ServerSideApply=true"})
    fitting = annotated("ConfigMap", "d", **{"argocd.argoproj.io/sync-options": "ServerSideApply=true", "x.com/y": "z"})

    assert assemble(*waves, forced, fitting).notes == (
        (
            "argocd.argoproj.io/sync-wave: 5 of a.yaml, document 1 (line 1): ConfigMap a and 1 more has no effect here; "
            "dependsOn orders resources"
        ),
        (
            "argocd.argoproj.io/sync-options: Replace=true,ServerSideApply=true of a.yaml, document 3 (line 5): ConfigMap c "
            "has no effect here; updatePolicy.replace replaces objects, deletionPolicy keeps them"
        ),
    )


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param(
            annotated("Pod", "a", **{"helm.sh/hook": "pre-delete, post-delete"}),
            "Pod a is left out: helm.sh/hook: pre-delete, post-delete marks it as not part of an installation",
            id="what clears away must not run at the beginning",
        ),
        pytest.param(
            annotated("Pod", "a", **{"helm.sh/hook": "test"}),
            "Pod a is left out: helm.sh/hook: test marks it as not part of an installation",
            id="a test",
        ),
        pytest.param(
            annotated("Job", "a", **{"argocd.argoproj.io/hook": "SyncFail"}),
            "Job a is left out: argocd.argoproj.io/hook: SyncFail marks it as not part of an installation",
            id="a hook of Argo CD",
        ),
        pytest.param(
            annotated("ConfigMap", "a", **{"config.kubernetes.io/local-config": "true"}),
            "ConfigMap a is left out: config.kubernetes.io/local-config: true marks it as not part of an installation",
            id="input of kustomize",
        ),
        pytest.param(
            "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization, resources: [b.yaml]}",
            "Kustomization is left out: it is not an object but a configuration file of kustomize: import the output "
            "of `kubectl kustomize`",
            id="a file of kustomize",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Config, clusters: []}",
            "Config is left out: it is not an object but a configuration file of kubectl: it holds credentials",
            id="a kubeconfig",
        ),
    ],
)
def test_what_is_no_object_of_an_installation_is_left_out(document: str, reason: str) -> None:
    result = assemble("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}", document)

    assert list(result.stack["spec"]["template"]["resources"]) == ["other"]
    assert result.warnings == (f"a.yaml, document 2 (line 3): {reason}",)


def test_a_hook_that_also_installs_is_a_resource() -> None:
    assert list(find_resources(annotated("Job", "a", **{"helm.sh/hook": "pre-delete,post-install"}))) == ["a"]


def test_a_cluster_scoped_object_loses_its_namespace() -> None:
    role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, namespace: prod}}"

    assert find_resources(role)["a"]["manifest"]["metadata"] == {"name": "a"}


def test_a_hook_that_runs_again_replaces_its_object() -> None:
    hook = "{apiVersion: batch/v1, kind: Job, metadata: {name: %s, annotations: {%s: x}}}"
    found = find_resources(
        hook % ("a", "helm.sh/hook"), hook % ("b", "argocd.argoproj.io/hook"), hook % ("c", "x.com/hook"),
        annotated("ConfigMap", "d", **{"helm.sh/hook": "post-install"}),
    )  # fmt: skip

    assert {name: each.get("updatePolicy", {}).get("replace") for name, each in found.items()} == {
        "a": "DeleteFirst", "b": "DeleteFirst", "c": None, "d": None
    }  # fmt: skip


# ---------------------------------------------------------------- a Stack that is too large for one object


def make_stack(resources: int, *, size: int) -> Object:
    """Make a Stack with that many resources of that many incompressible characters."""
    source = random.Random(7)
    manifests = {
        f"r{number}": {
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": source.randbytes(size).hex()}}
        }
        for number in range(resources)
    }
    template = {"outputs": {"count": {"value": resources}}, "resources": manifests}
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "metadata": {"name": "shop", "namespace": "prod"},
        "spec": {"template": template, "paused": True},
    }


def make_secret(name: str, **parts: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **parts})


def test_literal_values_of_secrets_become_parameters_with_a_secret() -> None:
    texts = [
        make_secret("db", data={"password": "YQ=="}, stringData={"url": "http://${host}", "empty": ""}),
        make_secret("shop-parameters", data={"tls.crt": "YQ==", "tls.key": "Yg=="}),
    ]
    made = stack_assembly.assemble(
        [SourceText(source="app.yaml", content="\n---\n".join(texts))],
        name="shop",
        namespace="prod",
        has_secret_parameters=True,
    )
    spec, resources = made.stack["spec"], made.stack["spec"]["template"]["resources"]

    assert made.secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop-parameters2", "namespace": "prod"},
        "stringData": {"dbPassword": "YQ==", "dbUrl": "http://${host}", "shopParametersTlsKey": "Yg=="},
    }
    assert spec["parametersFrom"] == [{"secretRef": {"name": "shop-parameters2"}}]
    assert set(spec["template"]["parameters"]) == set(made.secret["stringData"])
    assert all(each == {"type": "string", "sensitive": True} for each in spec["template"]["parameters"].values())
    assert resources["db"]["manifest"]["data"] == {"password": "${params.dbPassword}"}
    assert resources["db"]["manifest"]["stringData"] == {"url": "${params.dbUrl}", "empty": ""}
    assert resources["shopParameters"]["manifest"]["data"]["tls.crt"] == "YQ=="
    assert not any("literal" in each for each in (*made.warnings, *made.notes))


def test_without_the_option_literal_values_stay_and_it_is_named() -> None:
    text = SourceText(source="app.yaml", content=make_secret("db", data={"password": "YQ=="}))
    made = stack_assembly.assemble([text], name="shop", namespace=None)

    assert made.secret is None
    assert "parametersFrom" not in made.stack["spec"]
    assert "to turn literal values of Secrets into parameters, use --secret-parameters" in made.notes


class Shelf:
    """The ConfigMaps that were written."""

    def __init__(self, maps: list[Object]) -> None:
        self._maps = {each["metadata"]["name"]: each for each in maps}

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._maps[ref.name]["binaryData"])


def test_a_stack_that_fits_stays_as_it_is() -> None:
    stack = make_stack(3, size=1_000)
    assert stack_assembly.divide(stack) == [stack]


def test_the_divided_stack_has_the_same_template() -> None:
    whole = make_stack(40, size=10_000)
    *maps, stack = stack_assembly.divide(whole)

    read = definition_sources.read_template(SourceReader(cast("ManagementCluster", Shelf(maps))), "prod", stack["spec"])
    template, _ = asyncio.run(read)

    assert template == whole["spec"]["template"]
    assert list(template["resources"]) == list(whole["spec"]["template"]["resources"]), "in the same order"
    assert (stack["metadata"], stack["spec"]["paused"]) == ({"name": "shop", "namespace": "prod"}, True)


def test_a_changed_part_has_another_name_so_that_the_stack_changes() -> None:
    whole = make_stack(40, size=10_000)
    *maps, stack = stack_assembly.divide(whole)
    *again, _ = stack_assembly.divide(whole)
    next(iter(whole["spec"]["template"]["resources"].values()))["dependsOn"] = ["r1"]
    *others, changed = stack_assembly.divide(whole)

    first, *rest = [each["metadata"]["name"] for each in maps]
    assert [each["metadata"]["name"] for each in again] == [first, *rest]
    assert [each["metadata"]["name"] for each in others[1:]] == rest, "other parts keep their names"
    assert changed["spec"]["templateRefs"] != stack["spec"]["templateRefs"]


def test_no_source_has_the_name_of_an_imported_object() -> None:
    whole = make_stack(40, size=10_000)
    *maps, _ = stack_assembly.divide(whole)
    last = maps[-1]["metadata"]["name"]
    assert last.startswith("shop-template-")
    # The added resource is in the first part, so that the name of the last part stays the same.
    whole["spec"]["template"]["resources"]["r0"]["manifest"]["metadata"] = {"name": last}
    *maps, stack = stack_assembly.divide(whole)
    assert all(each["metadata"]["name"].startswith("shop-template2-") for each in maps)
    assert [each["name"] for each in stack["spec"]["templateRefs"]] == [each["metadata"]["name"] for each in maps]


def test_more_sources_than_a_stack_can_name_are_refused() -> None:
    with pytest.raises(
        InvalidDefinition, match="the template: takes 40 compressed ConfigMaps, but a Stack can reference at most 32"
    ):
        stack_assembly.divide(make_stack(40, size=150_000))


def test_an_object_beyond_an_annotation_is_named() -> None:
    objects = stack_assembly.divide(make_stack(2, size=250_000))
    assert list(stack_assembly.find_unapplicable(objects)) == [
        f"configmap/{each['metadata']['name']}" for each in objects[:2]
    ]


def test_every_object_can_be_applied_by_kubectl() -> None:
    objects = stack_assembly.divide(make_stack(100, size=9_000))
    assert max(len(json.dumps(each)) for each in objects) < stack_assembly.APPLIED_BYTES


def test_a_single_large_resource_is_not_divided() -> None:
    objects = stack_assembly.divide(make_stack(1, size=300_000))
    assert [each["kind"] for each in objects] == ["ConfigMap", "Stack"]
