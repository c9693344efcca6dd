"""Objects come after the program that serves them: a controller must still run when its objects are deleted."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import ManifestDocument
from hearth.cli.importer.manifest_references import ManifestIndex

RBAC, APPS, ADMISSION = "rbac.authorization.k8s.io/v1", "apps/v1", "admissionregistration.k8s.io/v1"
GROUP = "sso.example.com"


def find_required(manifests: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The direct requirements of each manifest, all as `Kind/name`."""
    index = ManifestIndex([ManifestDocument(manifest=each, place="") for each in manifests], "default")
    index.fill()
    called = [f"{each['kind']}/{each['metadata']['name']}" for each in manifests]
    return {
        called[at]: {called[each] for each in required}
        for at, required in enumerate(stack_assembly.find_dependencies(index))
    }


def find_all_required(manifests: list[dict[str, Any]], start: str) -> set[str]:
    """The direct and indirect requirements of one manifest."""
    required = find_required(manifests)
    found: set[str] = set()
    pending = [start]
    while pending:
        new = required[pending.pop()] - found
        found |= new
        pending += new
    return found


def make(
    kind: str, name: str = "op", *, api: str = "v1", labels: dict[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels or {}}, **fields}


def workload(kind: str = "Deployment", name: str = "op", account: str = "op", **spec: Any) -> dict[str, Any]:
    pod = {"serviceAccountName": account, "containers": [{"name": "a"}], **spec}
    return make(kind, name, api=APPS, spec={"template": {"metadata": {"labels": {"app": name}}, "spec": pod}})


def role(
    *resources: str, group: str = GROUP, verbs: tuple[str, ...] = ("*",), kind: str = "ClusterRole", name: str = "op"
) -> dict[str, Any]:
    return make(
        kind, name, api=RBAC, rules=[{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}]
    )


def binding(
    subject: dict[str, str] | None = None, *, kind: str = "ClusterRole", role_name: str = "op", name: str = "op"
) -> dict[str, Any]:
    subject = subject or {"kind": "ServiceAccount", "name": "op", "namespace": "default"}
    own = "RoleBinding" if kind == "Role" else "ClusterRoleBinding"
    return make(own, name, api=RBAC, roleRef={"kind": kind, "name": role_name}, subjects=[subject])


DEFINITION = make(
    "CustomResourceDefinition", f"realms.{GROUP}", api="apiextensions.k8s.io/v1",
    spec={"group": GROUP, "scope": "Namespaced", "names": {"kind": "Realm", "plural": "realms"}},
)  # fmt: skip
ACCOUNT = make("ServiceAccount")
REALM = make("Realm", "main", api=f"{GROUP}/v1", spec={"displayName": "main"})
SERVICE = make("Service", spec={"selector": {"app": "op"}})
USUAL = [DEFINITION, ACCOUNT, role("realms"), binding(), workload(), REALM]


def test_a_custom_resource_comes_after_its_controller_and_its_rights() -> None:
    found = find_all_required(USUAL, "Realm/main")

    assert found == {
        f"CustomResourceDefinition/realms.{GROUP}", "ServiceAccount/op", "ClusterRole/op", "ClusterRoleBinding/op", "Deployment/op"
    }  # fmt: skip


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([workload("StatefulSet"), role("realms"), binding()], id="StatefulSet"),
        pytest.param([workload("DaemonSet"), role("realms"), binding()], id="DaemonSet"),
        pytest.param([workload(), role("realms/status", "realms"), binding()], id="it reports the status"),
        pytest.param([workload(), role("realms/finalizers", verbs=("update",)), binding()], id="it writes finalizers"),
        pytest.param([workload(), role("*"), binding()], id="all kinds of the group"),
        pytest.param([workload(), role("*", group="*"), binding()], id="all kinds of all groups"),
        pytest.param([workload(), binding(role_name="cluster-admin")], id="all rights"),
        pytest.param([workload(), role("realms", verbs=("list", "watch")), binding()], id="it only watches"),
        pytest.param([workload(), role("realms", kind="Role"), binding(kind="Role")], id="in one namespace"),
        pytest.param(
            [workload(), role("realms"), binding({"kind": "User", "name": "system:serviceaccount:default:op"})], id="a user"
        ),
        pytest.param(
            [workload(), role("realms"), binding({"kind": "Group", "name": "system:serviceaccounts:default"})], id="a group"
        ),
        pytest.param([workload(), role("realms"), binding({"kind": "Group", "name": "system:serviceaccounts"})], id="all"),
        pytest.param(
            [workload(account=""), role("realms"), binding({"kind": "ServiceAccount", "name": "default", "namespace": "default"})],
            id="the account that pods have by default",
        ),
    ],
)  # fmt: skip
def test_a_controller_is_known_by_its_rights(others: list[dict[str, Any]]) -> None:
    (controller,) = (each for each in others if each["apiVersion"] == APPS)

    assert f"{controller['kind']}/op" in find_required([DEFINITION, REALM, *others])["Realm/main"]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([workload(), role("realms", group="other.example.com"), binding()], id="another group"),
        pytest.param([workload(), role("domains"), binding()], id="another kind"),
        pytest.param([workload(), role("realms/status", verbs=("get",)), binding()], id="it reads the status"),
        pytest.param([workload(), role("realms", verbs=("get", "create")), binding()], id="it only creates them"),
        pytest.param([workload(), role("realms")], id="no binding"),
        pytest.param([workload(account="else"), role("realms"), binding()], id="another account"),
        pytest.param(
            [make("Job", "op", api="batch/v1", spec=workload()["spec"]), role("realms"), binding()], id="a Job ends"
        ),
        pytest.param(
            [workload(), role("realms"), binding({"kind": "ServiceAccount", "name": "op", "namespace": "other"})],
            id="an account of another namespace",
        ),
    ],
)
def test_who_does_not_serve_a_kind_is_not_waited_for(others: list[dict[str, Any]]) -> None:
    assert find_required([DEFINITION, REALM, *others])["Realm/main"] == {f"CustomResourceDefinition/realms.{GROUP}"}


def test_who_reports_the_status_serves_the_kind_and_not_who_uses_it() -> None:
    user = [workload(name="user", account="user"), role("realms", "*", name="user")]
    bound = binding({"kind": "ServiceAccount", "name": "user", "namespace": "default"}, role_name="user", name="user")

    found = find_required([DEFINITION, REALM, *user, bound, workload(), role("realms", "realms/status"), binding()])

    assert found["Realm/main"] == {f"CustomResourceDefinition/realms.{GROUP}", "Deployment/op"}


def test_a_kind_that_is_defined_elsewhere_needs_more_evidence() -> None:
    served = [REALM, ACCOUNT, role("realms", "realms/status"), binding(), workload()]
    used = [REALM, ACCOUNT, role("realms"), binding(), workload()]

    assert "Deployment/op" in find_required(served)["Realm/main"]
    assert find_required(used)["Realm/main"] == set()


def test_aggregated_rights_stay_as_long_as_their_controller() -> None:
    parts = make("ClusterRole", "parts", api=RBAC, labels={"to": "op"}, rules=role("realms")["rules"])
    whole = make(
        "ClusterRole",
        "op",
        api=RBAC,
        aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"to": "op"}}]},
        rules=[],
    )

    found = find_all_required([DEFINITION, REALM, ACCOUNT, workload(), binding(), whole, parts], "Realm/main")

    assert {"Deployment/op", "ClusterRole/op", "ClusterRole/parts"} <= found


def test_what_a_workload_needs_to_start_does_not_wait_for_it() -> None:
    certificate = make("Realm", "main", api=f"{GROUP}/v1", spec={"secretName": "tls"})
    mounting = workload(volumes=[{"name": "tls", "secret": {"secretName": "tls"}}])
    issuer = make("Realm", "issuer", api=f"{GROUP}/v1", spec={})

    found = find_required([DEFINITION, ACCOUNT, role("realms"), binding(), certificate, issuer, mounting])

    assert "Deployment/op" not in found["Realm/main"] | found["Realm/issuer"]


def webhook(*, rule: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A webhook for realms that the Service answers."""
    rules = [
        {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["realms"], "operations": ["CREATE"], **(rule or {})}
    ]
    client = {"service": {"name": "op", "namespace": "default"}}
    return make(
        "ValidatingWebhookConfiguration",
        "hook",
        api=ADMISSION,
        webhooks=[{"name": "a.b.c", "clientConfig": client, "rules": rules, **fields}],
    )


HOOK = "ValidatingWebhookConfiguration/hook"


@pytest.mark.parametrize(
    ("hook", "is_awaited"),
    [
        pytest.param(webhook(), True, id="its kind"),
        pytest.param(webhook(rule={"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}), True, id="all"),
        pytest.param(webhook(rule={"resources": ["*/*"]}), True, id="all, with their parts"),
        pytest.param(webhook(rule={"resources": ["realms/*"]}), False, id="its parts alone"),
        pytest.param(webhook(rule={"resources": ["realms/status"]}), False, id="one of its parts"),
        pytest.param(webhook(rule={"apiGroups": ["apps"]}), False, id="another group"),
        pytest.param(webhook(rule={"apiVersions": ["v2"]}), False, id="another version"),
        pytest.param(webhook(rule={"operations": ["CONNECT"]}), False, id="another operation"),
        pytest.param(webhook(objectSelector={"matchLabels": {"a": "b"}}), False, id="objects with a label"),
        pytest.param(webhook(objectSelector={"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}), True, id="objects without one"),
        pytest.param(webhook(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}), True, id="its namespace"),
        pytest.param(webhook(namespaceSelector={"matchExpressions": [{"key": "on", "operator": "Exists"}]}), False, id="other namespaces"),
    ],
)  # fmt: skip
def test_what_a_webhook_sees_comes_after_it(hook: dict[str, Any], *, is_awaited: bool) -> None:
    found = find_required([DEFINITION, REALM, ACCOUNT, SERVICE, workload(), hook])

    assert (HOOK in found["Realm/main"]) is is_awaited
    assert {"Deployment/op", "Service/op"} <= found[HOOK]


def test_nothing_that_a_webhook_needs_waits_for_it() -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    other = make("ConfigMap", "other")

    found = find_required([ACCOUNT, SERVICE, workload(), webhook(rule=everything), other, make("Secret", "pull")])

    assert found["ConfigMap/other"] == found["Secret/pull"] == {HOOK}
    assert found["Deployment/op"] == {"ServiceAccount/op"}
    assert found["ServiceAccount/op"] == found["Service/op"] == set()


def test_a_webhook_that_no_workload_answers_is_not_waited_for() -> None:
    assert HOOK not in find_required([DEFINITION, REALM, SERVICE, webhook()])["Realm/main"]


def test_an_object_of_an_aggregated_api_comes_after_its_server() -> None:
    service = make("APIService", f"v1.{GROUP}", api="apiregistration.k8s.io/v1", spec={"group": GROUP, "version": "v1", "service": {"name": "op", "namespace": "default"}})  # fmt: skip

    assert find_required([REALM, SERVICE, workload(), service])["Realm/main"] == {f"APIService/v1.{GROUP}"}


def test_an_object_comes_after_the_workload_that_converts_its_kind() -> None:
    conversion = {"webhook": {"clientConfig": {"service": {"name": "op", "namespace": "default"}}}}
    converted = {**DEFINITION, "spec": {**DEFINITION["spec"], "conversion": conversion}}

    assert "Deployment/op" in find_required([converted, REALM, SERVICE, workload()])["Realm/main"]


PARTS = [
    *USUAL, SERVICE, webhook(), webhook(rule={"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}),
    role("*", group="*"), role("realms/status", "realms"), workload("DaemonSet"), workload("StatefulSet", volumes=[{"secret": {"secretName": "main"}}]),
    make("Secret", "main"), make("Ingress", "main", api="networking.k8s.io/v1"), make("Namespace", "default"),
    make("Realm", "second", api=f"{GROUP}/v1", spec={"secretName": "main"}), {"apiVersion": "v1", "kind": "List", "metadata": {"name": "x"}},
    make("ClusterRole", "all", api=RBAC, labels={"a": "b"}, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    make("ClusterRole", "every", api=RBAC, labels={"a": "b"}, aggregationRule={"clusterRoleSelectors": [{}]}),
]  # fmt: skip


@hypothesis.given(strategies.lists(strategies.sampled_from(PARTS), max_size=12))
def test_an_order_never_closes_a_cycle(manifests: list[dict[str, Any]]) -> None:
    unique = list({(each["kind"], each["metadata"]["name"]): each for each in manifests}.values())
    required = find_required(unique)

    done: set[str] = set()
    for _ in required:
        done |= {name for name, needs in required.items() if needs <= done}
    assert done == set(required)
