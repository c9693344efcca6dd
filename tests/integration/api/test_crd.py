"""The CustomResourceDefinitions on a real API server: accepted, rejected and pruned objects, printed columns,
explanations.

First Stacks, then ResourceGroups with their scale subresource, HealthMarks, and `spec.healing`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import kubernetes.client
import pytest
from kubernetes.client import ApiException

from hearth.kube.client import api_requests
from hearth.model import errors, limits, names, phases
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import HEALTH_MARK, STACK
from support.real import user_shell
from support.real.real_user import RealUser
from support.stories.world import Address

GROUP, VERSION, PLURAL = "hearth.dev", "v1alpha1", "stacks"

Spec: TypeAlias = dict[str, Any]
Kubectl: TypeAlias = Callable[..., str]
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap"}
SOUND_GROUP = {"replicas": 3, "template": {"manifest": MANIFEST}}
RESOURCE = {"stackName": "shop", "resource": "web"}
TARGET = {"target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    """Runs kubectl and returns its output."""

    def run(word: str, *arguments: str, text: str | None = None) -> str:
        done = user_shell.run_kubectl(kubeconfig, word, *arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def installed(kubectl: Kubectl) -> None:
    """The definition is installed and served."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(crd.make_crds()[0]))
    kubectl("wait", "--for=condition=Established", "crd/stacks.hearth.dev", "--timeout=30s")


@pytest.fixture
def api(installed: None, api_client: Any) -> kubernetes.client.CustomObjectsApi:
    return kubernetes.client.CustomObjectsApi(api_client)


def make_spec(**template: Any) -> Spec:
    """A valid spec whose only resource has these additional or replaced fields."""
    resources = {"web": make_resource()}
    return {"template": {"resources": resources} | template}


def make_resource(**fields: Any) -> dict[str, Any]:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"greeting": "hello"}}} | fields


def make_stack(spec: Spec, name: str = "shop") -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Stack", "metadata": {"name": name}, "spec": spec}


def create(api: Any, namespace: str, spec: Spec, **options: Any) -> dict[str, Any]:
    created: dict[str, Any] = api.create_namespaced_custom_object(
        GROUP, VERSION, namespace, PLURAL, make_stack(copy.deepcopy(spec)), **options
    )
    return created


def test_the_definition_is_accepted_without_a_reservation(api: Any, api_client: Any) -> None:
    extensions = kubernetes.client.ApiextensionsV1Api(api_client)

    found = extensions.read_custom_resource_definition("stacks.hearth.dev")

    status: Any = found.status
    conditions = {condition.type: condition.status for condition in status.conditions}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


EVERYTHING: Spec = {
    "template": {
        "parameters": {
            "replicas": {"type": "integer", "default": 2, "minimum": 1, "description": "How many."},
            "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
            "options": {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": "1"}},
            "nothing": {"default": None},
        },
        "conditions": {"many": "params.replicas > 2"},
        "resources": {
            "config": make_resource(),
            "web": {
                "manifest": {
                    "apiVersion": "${params.level}/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "web", "labels": {"a/b": "c"}},
                    "spec": {"replicas": "${params.replicas}", "strategy": None, "list": [1, "two", {"three": 3.5}]},
                },
                "dependsOn": ["config"],
                "when": "conditions.many",
                "readyWhen": ["web.status.readyReplicas >= 1"],
                "failedWhen": ["web.status.replicas > 100"],
            },
        },
        "outputs": {
            "text": {"value": "http://${web.metadata.name}", "when": "conditions.many"},
            "number": {"value": 1},
            "object": {"value": {"a": ["${web.metadata.name}"]}},
        },
    },
    "parameters": {"replicas": 3, "level": "high", "options": {"a": "2"}, "flag": True, "list": [1], "nothing": None},
}


def test_everything_that_a_stack_may_say_is_kept_as_it_was_said(api: Any, namespace: str) -> None:
    assert create(api, namespace, EVERYTHING)["spec"] == EVERYTHING


def test_a_reference_is_completed(api: Any, namespace: str) -> None:
    assert create(api, namespace, {"templateRef": {"name": "shop"}})["spec"] == {
        "templateRef": {"kind": "ConfigMap", "name": "shop", "key": "template.yaml"}
    }


REFUSED = [
    pytest.param({}, "set exactly one of template, templateRef and templateRefs", id="neither"),
    pytest.param(
        make_spec() | {"templateRef": {"name": "shop"}},
        "set exactly one of template, templateRef and templateRefs",
        id="both",
    ),
    pytest.param({"template": {}}, "spec.template.resources: Required value", id="a template without resources"),
    pytest.param({"templateRef": {}}, "spec.templateRef.name: Required value", id="a reference to nothing"),
    pytest.param(
        {"templateRef": {"kind": "Secret", "name": "shop"}}, 'supported values: "ConfigMap"', id="a source of no kind"
    ),
    pytest.param(
        make_spec(resources={"my-web": make_resource()}),
        "the name of a resource must start with a lower-case letter",
        id="a dash in a resource's name",
    ),
    pytest.param(
        make_spec(resources={"a" * 41: make_resource()}), "at most 40 characters", id="a resource's name too long"
    ),
    pytest.param(
        make_spec(resources={"params": make_resource()}),
        "a resource must not be a reserved word of expressions",
        id="a reserved word",
    ),
    pytest.param(make_spec(parameters={"1st": {}}), "the name of a parameter must start", id="a parameter's name"),
    pytest.param(make_spec(conditions={"Many": "true"}), "the name of a condition must start", id="a condition's name"),
    pytest.param(make_spec(outputs={"": {"value": 1}}), "the name of an output must start", id="an output's name"),
    pytest.param(make_spec(conditions={"many": True}), "must be of type string", id="a condition that is no text"),
    pytest.param(
        make_spec(parameters={"size": {"type": "int"}}),
        'spec.template.parameters.size.type: Unsupported value: "int"',
        id="a type that JSON Schema does not know",
    ),
    pytest.param(
        make_spec(resources={"web": {}}),
        "spec.template.resources[web]: Invalid value: set exactly one of manifest and externalRef",
        id="no manifest",
    ),
    pytest.param(
        make_spec(resources={"web": {"manifest": "kind: ConfigMap"}}), "must be of type object", id="a manifest as text"
    ),
    pytest.param(
        make_spec(resources={"web": {"manifest": {"kind": "ConfigMap"}}}),
        "spec.template.resources.web.manifest.apiVersion: Required value",
        id="a manifest without a version",
    ),
    pytest.param(
        make_spec(resources={"web": make_resource(dependsOn=["a", "a"])}), "Duplicate value", id="a dependency twice"
    ),
    pytest.param(
        make_spec(resources={"web": make_resource(dependsOn="a")}), "must be of type array", id="dependencies as text"
    ),
    pytest.param(
        make_spec(resources={"web": make_resource(when=True)}), "must be of type string", id="when is no text"
    ),
    pytest.param(make_spec(outputs={"url": {}}), "spec.template.outputs.url.value: Required value", id="no value"),
    pytest.param(make_spec() | {"parameters": [1]}, "must be of type object", id="parameters as a list"),
    pytest.param(
        make_spec() | {"revisionHistoryLimit": 101}, "should be less than or equal to 100", id="an endless history"
    ),
]


@pytest.mark.parametrize(("spec", "words"), REFUSED)
def test_what_is_plainly_wrong_is_refused_by_the_server_itself(
    api: Any, namespace: str, spec: Spec, words: str
) -> None:
    with pytest.raises(ApiException) as caught:
        create(api, namespace, spec)

    assert caught.value.status == 422
    assert words in json.loads(caught.value.body or "")["message"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param(make_spec() | {"postponed": True}, "spec.postponed", id="in the spec"),
        pytest.param(
            make_spec(resources={"web": make_resource(readywhen=["true"])}),
            "spec.template.resources.web.readywhen",
            id="in a resource, misspelt",
        ),
    ],
)
def test_an_unknown_field_is_reported_to_anyone_who_asks_for_strictness(
    api: Any, namespace: str, spec: Spec, path: str
) -> None:
    with pytest.raises(ApiException) as caught:
        create(api, namespace, spec, field_validation="Strict")

    assert f'unknown field "{path}"' in json.loads(caught.value.body or "")["message"]


def test_an_unknown_field_is_pruned_for_everybody_else(api: Any, namespace: str) -> None:
    assert create(api, namespace, make_spec() | {"postponed": True})["spec"] == make_spec()


def test_a_template_of_two_thousand_resources_is_accepted(api: Any, namespace: str) -> None:
    resources = {f"r{number:039d}": make_resource() for number in range(2_000)}

    assert len(create(api, namespace, make_spec(resources=resources))["spec"]["template"]["resources"]) == 2_000


def test_the_record_of_field_managers_does_not_grow_with_the_template(api: Any, namespace: str) -> None:
    resources = {f"r{number}": make_resource() for number in range(100)}

    created = create(api, namespace, make_spec(resources=resources), field_manager="another")

    assert len(json.dumps(created["metadata"]["managedFields"])) < 500


def test_as_many_resources_as_are_allowed_are_accepted_and_no_more(api: Any, namespace: str) -> None:
    smallest = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}
    resources = {f"r{number:039d}": smallest for number in range(limits.INLINE_RESOURCES)}
    create(api, namespace, make_spec(resources=resources))

    with pytest.raises(ApiException, match="must have at most 5000 items"):
        create(api, namespace, make_spec(resources=resources | {"more": smallest}))


STATUS = {
    "phase": "UpdateInProgress",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2030-01-01T12:00:00Z",
            "reason": "Progressing",
            "message": "waits for web (deployment/shop-web)",
        }
    ],
    "revision": 4,
    "lastCompletedRevision": 3,
    "summary": "12/14",
    "resources": {"total": 14, "ready": 12, "progressing": 1, "waiting": 1, "failed": 0, "obsolete": 2},
    "problems": [
        {
            "resource": "web",
            "kind": "deployment",
            "name": "shop-web",
            "namespace": "shop",
            "reason": "Conflict",
            "message": "cannot apply",
            "nextRetryTime": "2030-01-01T12:00:00Z",
        }
    ],
    "outputs": {"url": "http://web", "port": 80, "object": {"a": [None]}},
}


@pytest.fixture
def with_status(api: Any, namespace: str) -> dict[str, Any]:
    """A Stack after its status was written, as the server holds it."""
    create(api, namespace, make_spec())
    patched: dict[str, Any] = api.patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, PLURAL, "shop", {"status": STATUS}
    )
    return patched


def test_everything_that_a_status_may_say_is_kept(with_status: dict[str, Any]) -> None:
    assert with_status["status"] == STATUS


def test_the_status_is_apart_from_the_spec(with_status: dict[str, Any], api: Any, namespace: str) -> None:
    assert with_status["metadata"]["generation"] == 1

    patched = api.patch_namespaced_custom_object(
        GROUP, VERSION, namespace, PLURAL, "shop", {"status": {"phase": "DeleteFailed"}}
    )

    assert patched["status"] == STATUS


@pytest.mark.parametrize("phase", phases.Phase)
def test_every_phase_can_be_written(api: Any, namespace: str, phase: phases.Phase) -> None:
    create(api, namespace, make_spec())

    patched = api.patch_namespaced_custom_object_status(
        GROUP, VERSION, namespace, PLURAL, "shop", {"status": {"phase": str(phase)}}
    )

    assert patched["status"]["phase"] == phase


def test_get_shows_a_stack_in_one_line(with_status: dict[str, Any], kubectl: Kubectl, namespace: str) -> None:
    header, line = kubectl("get", "stacks", "--namespace", namespace).splitlines()

    assert header.split() == ["NAME", "PHASE", "READY", "RESOURCES", "REVISION", "STATE", "AGE"]
    assert line.split()[:5] == ["shop", "UpdateInProgress", "False", "12/14", "4"]


def test_a_wide_get_shows_the_message(with_status: dict[str, Any], kubectl: Kubectl, namespace: str) -> None:
    header, line = kubectl("get", "stacks", "--namespace", namespace, "--output", "wide").splitlines()

    assert header.endswith("MESSAGE")
    assert line.endswith("waits for web (deployment/shop-web)")


@pytest.mark.parametrize("name", ["stack", "stacks", "stk", "stacks.hearth.dev", "hearth"])
def test_stacks_are_found_under_all_their_names(
    with_status: dict[str, Any], kubectl: Kubectl, namespace: str, name: str
) -> None:
    # The category `hearth` also has the StackDefinitions of other tests.
    assert "stack.hearth.dev/shop" in kubectl("get", name, "--namespace", namespace, "--output", "name").splitlines()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("stack", "The operator creates the objects that the template describes", id="the kind itself"),
        pytest.param("stack.spec.template.resources", "manifest <Object>", id="a map of objects"),
        pytest.param("stack.spec.template.resources.readyWhen", "web.status.readyReplicas >= 1", id="an example"),
        pytest.param(
            "stack.spec.template.parameters", "described with keywords of JSON Schema", id="a map described by its type"
        ),
        pytest.param("stack.spec.parameters", "has its default", id="a map of anything"),
        pytest.param("stack.status.problems", "nextRetryTime <string>", id="a list of the status"),
    ],
)
def test_explain_has_something_to_say(installed: None, kubectl: Kubectl, path: str, words: str) -> None:
    assert words in " ".join(kubectl("explain", path).split())


def make_group(user: RealUser, spec: dict[str, Any], name: str = "workers") -> dict[str, Any]:
    """A group in the namespace of the test."""
    metadata = {"name": name, "namespace": user.namespace}
    return {"apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": "ResourceGroup", "metadata": metadata, "spec": spec}


@pytest.fixture
async def address(user: RealUser) -> Address:
    return Address.of(await user.create(make_group(user, SOUND_GROUP)))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"replicas": -1}, "spec.replicas", id="negative"),
        pytest.param({"replicas": limits.GROUP_MEMBERS + 1}, "spec.replicas", id="absurd"),
        pytest.param({"rollingUpdate": {"maxBatchSize": 0}}, "spec.rollingUpdate.maxBatchSize", id="a batch of none"),
        pytest.param(
            {"rollingUpdate": {"maxBatchSize": "0%"}}, "spec.rollingUpdate.maxBatchSize", id="a share of none"
        ),
        pytest.param({"rollingUpdate": {"minInService": 4}}, "minInService must not be greater", id="above the size"),
        pytest.param({"rollingUpdate": {"pauseTime": "2h"}}, "pauseTime must be at most 3600s", id="a long pause"),
        pytest.param({"removalPolicies": [{"resources": ["-1"]}]}, "spec.removalPolicies[0].resources[0]", id="index"),
        pytest.param({"removalPolicies": [{"resources": []}]}, "spec.removalPolicies[0].resources", id="no index"),
        pytest.param({"removalPoliciesMode": "Never"}, "spec.removalPoliciesMode", id="mode"),
        pytest.param({"template": {}}, "spec.template.manifest", id="no manifest"),
    ],
)
async def test_a_mistake_is_refused_with_its_path(user: RealUser, change: dict[str, Any], path: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        await user.create(make_group(user, {**SOUND_GROUP, **change}))
    assert refused.value.code == 422
    assert path in str(refused.value)


async def test_the_defaults_are_shown(user: RealUser) -> None:
    made = await user.create(make_group(user, {"template": {"manifest": MANIFEST}, "rollingUpdate": {}}))
    assert made["spec"]["replicas"] == 1
    assert made["spec"]["rollingUpdate"] == {"maxBatchSize": 1}


async def test_a_name_that_no_member_could_have_is_refused(user: RealUser) -> None:
    with pytest.raises(ApiStatusError) as refused:
        await user.create(make_group(user, SOUND_GROUP, name="a.b"))
    assert "contain no dots" in str(refused.value)


@pytest.mark.parametrize("replicas", [-1, limits.GROUP_MEMBERS + 1])
async def test_an_impossible_size_is_refused_by_the_scale_subresource(
    user: RealUser, address: Address, replicas: int
) -> None:
    with pytest.raises(ApiStatusError) as refused:
        await user.scale(address, replicas, manager="keda")
    assert refused.value.code == 422
    assert ((await user.find(address)) or {})["spec"]["replicas"] == 3


async def test_a_size_is_scaled_and_its_writer_is_recorded(user: RealUser, address: Address) -> None:
    await user.scale(address, 5, manager="keda")
    found = await user.find(address) or {}
    (entry,) = [each for each in found["metadata"]["managedFields"] if each.get("subresource") == "scale"]
    assert found["spec"]["replicas"] == 5
    assert (entry["manager"], entry["fieldsV1"]["f:spec"]) == ("keda", {"f:replicas": {}})


async def send(user: RealUser, kind: Kind, spec: Object) -> Object:
    """The server's result for an object with that spec, sent like kubectl does; nothing is stored."""
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "m"}, "spec": spec}
    path = api_requests.collection_path(kind, user.namespace)
    return await user.connection.request("POST", path, query=api_requests.DRY_RUN_QUERY, body=body)


@pytest.mark.parametrize(
    "spec",
    [
        {**RESOURCE, "markUnhealthy": True},
        {**RESOURCE, "resource": "cache/db", "markUnhealthy": True, "reason": "x"},
        {**TARGET, "markUnhealthy": False},
    ],
    ids=["by resource", "by a path", "by the object"],
)
async def test_what_makes_sense_is_taken(user: RealUser, spec: Object) -> None:
    assert (await send(user, HEALTH_MARK, spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (RESOURCE, "spec.markUnhealthy: Required value"),
        ({**RESOURCE, "markUnhealthy": "true"}, "must be of type boolean"),
        ({**RESOURCE, "markUnhealthy": None}, "spec.markUnhealthy"),
        ({**RESOURCE, "markUnhealthy": True, "unknown": 1}, 'unknown field "spec.unknown"'),
        ({"markUnhealthy": True}, "set exactly one of: target"),
        ({"stackName": "shop", "markUnhealthy": True}, "set exactly one of: target"),
        ({**RESOURCE, **TARGET, "markUnhealthy": True}, "set exactly one of: target"),
        ({**RESOURCE, "resource": "a//b", "markUnhealthy": True}, "spec.resource"),
    ],
    ids=["no word", "a text", "null", "an unknown field", "nothing", "half", "both", "a path with a hole"],
)
async def test_what_makes_none_is_refused(user: RealUser, spec: Object, words: str) -> None:
    with pytest.raises(errors.ApiStatusError) as refused:
        await send(user, HEALTH_MARK, spec)
    assert refused.value.code in (400, 422)
    assert words in str(refused.value)


@pytest.mark.parametrize("change", [{"resource": "db"}, {**TARGET, "stackName": None, "resource": None}])
async def test_a_mark_keeps_speaking_of_the_same(user: RealUser, change: Object) -> None:
    metadata = {"name": "m", "namespace": user.namespace}
    made = await user.create(
        {
            "apiVersion": HEALTH_MARK.api_version,
            "kind": "HealthMark",
            "metadata": metadata,
            "spec": {**RESOURCE, "markUnhealthy": True},
        }
    )
    with pytest.raises(errors.ApiStatusError) as refused:
        await user.patch(Address.of(made), {"spec": change})
    assert "the target of a mark is immutable" in str(refused.value)
    changed = await user.patch(Address.of(made), {"spec": {"markUnhealthy": False, "reason": "x"}})
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("limit", "is_taken"),
    [(1, True), ("40%", True), ("100%", True), (0, False), ("0%", False), ("101%", False), ("four", False)],
)
async def test_the_limit_is_a_number_or_a_share(user: RealUser, limit: int | str, is_taken: bool) -> None:
    spec = {"healing": {"policy": "OnUpdate", "maxUnhealthy": limit}, "template": {"resources": {}}}
    if is_taken:
        assert (await send(user, STACK, spec))["spec"] == spec
        return
    with pytest.raises(errors.ApiStatusError) as refused:
        await send(user, STACK, spec)
    assert "spec.healing.maxUnhealthy" in str(refused.value)
