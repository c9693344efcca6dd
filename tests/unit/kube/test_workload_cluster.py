"""The engine's verbs handle responses that a real API server rarely sends."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.kube.client import api_requests
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model import errors, names, well_known_kinds
from hearth.model.child import Child, Object
from hearth.model.kinds import Kind, ObjectRef
from support.ports.silent_ports import DeafListener, SilentObserver
from support.server import api_errors
from support.units import signing
from support.units.scripted_api.scripted_connection import Answer, ScriptedConnection, conflict, missing
from support.virtual_time import in_virtual_time

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
COLLECTION = "/api/v1/namespaces/a/configmaps"
ITEM = f"{COLLECTION}/b"
REF = ObjectRef(group="", kind="ConfigMap", namespace="a", name="b")


class Ears(DeafListener, SilentObserver):
    """Counts changes of kinds, and records requests."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = 0
        self.requests: list[tuple[str, str, int]] = []

    def on_kinds(self) -> None:
        self.kinds += 1

    def on_request(self, *, verb: str, kind: str, code: int, seconds: float) -> None:
        self.requests.append((verb, kind, code))


def config_map(*, uid: str = "1", version: int = 10, **metadata: object) -> Object:
    """A child as the server shows it."""
    labels = {names.LABEL_STACK_UID: "s", names.LABEL_RESOURCE: "r"}
    shown = {"name": "b", "namespace": "a", "uid": uid, "resourceVersion": str(version), "labels": labels, **metadata}
    return signing.sign({"apiVersion": "v1", "kind": "ConfigMap", "metadata": shown})


def make(**script: Answer | list[Answer]) -> tuple[KubeWorkloadCluster, ScriptedConnection, Ears]:
    """A cluster on a server with these answers about the ConfigMap a/b, by method."""
    connection, ears = ScriptedConnection({f"{method} {ITEM}": answer for method, answer in script.items()}), Ears()
    cluster = KubeWorkloadCluster(connection, ears, observer=ears)  # type: ignore[arg-type]  # the same methods
    cluster.trust(signing.Trusting())
    return cluster, connection, ears


async def apply(cluster: KubeWorkloadCluster) -> Child:
    return await cluster.apply(config_map(), kind=CONFIG_MAP, manager="hearth:a/s", force=True)


@in_virtual_time
async def test_an_apply_is_one_request_and_its_answer_is_in_the_cache() -> None:
    cluster, connection, ears = make(PATCH=config_map(version=11))
    child = await apply(cluster)
    sent = connection.sent[0]
    assert (child.uid, child.resource_version) == ("1", 11)
    assert cluster.children_of("s", "r") == (child,)
    assert cluster.children("s") == {"r": (child,)}
    assert (str(sent), sent.content_type, sent.body) == (
        f"PATCH {ITEM}",
        "application/apply-patch+yaml",
        config_map(),
    )
    assert sent.query == {"fieldManager": "hearth:a/s", "force": "true", "fieldValidation": "Strict"}
    assert len(connection.sent) == 1
    assert ears.requests == [("apply", "ConfigMap", 200)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(api_errors.invalid(CONFIG_MAP, "b", []), 422, id="refused"),
        pytest.param(errors.Unreachable("down"), 0, id="no answer"),
    ],
)
@in_virtual_time
async def test_a_refusal_passes_through_as_it_came(error: Exception, code: int) -> None:
    cluster, _, ears = make(PATCH=error)
    with pytest.raises(type(error)) as caught:
        await apply(cluster)
    assert caught.value is error
    assert ears.requests == [("apply", "ConfigMap", code)]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"metadata": 3},
        {"metadata": {}},
        {"metadata": {"name": ["b"], "uid": "1", "resourceVersion": "11"}},
        {"metadata": {"name": "b", "uid": "1", "resourceVersion": "x"}},
    ],
)
@in_virtual_time
async def test_an_answer_that_is_no_object_is_none(answer: dict[str, Any]) -> None:
    cluster, _, _ = make(PATCH=answer)
    with pytest.raises(errors.Unreachable, match="the response is not a ConfigMap"):
        await apply(cluster)
    assert cluster.children("s") == {}


DELETING = config_map(version=12, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param({"DELETE": {"kind": "Status", "status": "Success"}}, True, id="gone at once"),
        pytest.param({"DELETE": config_map(version=12)}, True, id="gone at once, and shown as it was"),
        pytest.param({"DELETE": DELETING}, False, id="held by a finalizer"),
        pytest.param({"DELETE": missing()}, True, id="was gone already"),
        pytest.param({"DELETE": api_errors.unknown_kind()}, True, id="its kind is gone"),
        pytest.param({"DELETE": conflict(), "GET": config_map(uid="2")}, True, id="another incarnation is there"),
        pytest.param({"DELETE": conflict(), "GET": missing()}, True, id="a conflict, and then nothing there"),
    ],
)
@in_virtual_time
async def test_when_a_deleted_child_is_gone(script: dict[str, Answer], *, expected: bool) -> None:
    cluster, connection, _ = make(PATCH=config_map(), **script)
    child = await apply(cluster)
    assert await cluster.delete(child) == expected
    assert connection.sent[1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "1", "resourceVersion": "10"},
    }
    left = cluster.children_of("s", "r")
    assert [each.deleting for each in left] == ([] if expected else [True])


@pytest.mark.parametrize(
    ("key", "keeps_dependents", "expected"),
    [
        pytest.param("Deployment.apps", False, "Foreground", id="waits for its Pods"),
        pytest.param("CronJob.batch", False, "Foreground", id="waits for the Pods of its Jobs"),
        pytest.param("StatefulSet.apps", True, "Orphan", id="leaves its Pods"),
        pytest.param("ConfigMap", False, "Background", id="owns nothing"),
        pytest.param("Database.example.com", False, "Background", id="its operator may create its Pods again"),
    ],
)
def test_only_objects_that_own_pods_are_deleted_in_the_foreground(
    key: str, expected: str, *, keeps_dependents: bool
) -> None:
    name, _, group = key.partition(".")
    kind = well_known_kinds.regular_kind(group, name)
    body = api_requests.delete_options("1", keeps_dependents=keeps_dependents, kind=kind)
    assert body["propagationPolicy"] == expected


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param({"DELETE": conflict(), "GET": config_map()}, 409, id="a webhook may say conflict too"),
        pytest.param({"DELETE": conflict(), "GET": api_errors.unavailable()}, 503, id="unknown"),
        pytest.param({"DELETE": api_errors.unavailable()}, 503, id="not now"),
    ],
)
@in_virtual_time
async def test_a_refused_deletion_is_no_deletion(script: dict[str, Answer], code: int) -> None:
    cluster, _, _ = make(PATCH=config_map(), **script)
    child = await apply(cluster)
    with pytest.raises(errors.ApiStatusError) as caught:
        await cluster.delete(child)
    assert caught.value.code == code
    assert cluster.children_of("s", "r") == (child,)


LIST = "GET /api/v1/configmaps"


def page(*items: Object, continued: str = "") -> Object:
    """A page of a list; like on the server, its items have no kind."""
    bare = [{"metadata": item["metadata"]} for item in items]
    metadata = {"resourceVersion": "9", **({"continue": continued} if continued else {})}
    return {"kind": "ConfigMapList", "metadata": metadata, "items": bare}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        pytest.param([page()], [], id="none"),
        pytest.param([page(config_map(uid="1"), continued="t"), page(config_map(uid="2"))], ["1", "2"], id="two pages"),
        pytest.param([api_errors.unknown_kind()], [], id="a kind that is not served has none"),
        pytest.param(
            [
                page(config_map(uid="1"), continued="t"),
                api_errors.refuse(410, "Expired", "too old"),
                page(config_map(uid="2")),
            ],
            ["2"],
            id="pages that expire are listed again",
        ),
    ],
)
@in_virtual_time
async def test_a_live_list_is_complete(pages: list[Answer], expected: list[str]) -> None:
    cluster, connection, _ = make()
    connection.script[LIST] = list(pages)
    found = await cluster.list_children(CONFIG_MAP, "s")
    assert [child.uid for child in found] == expected
    assert all(child.kind == CONFIG_MAP for child in found)
    assert connection.sent[0].query["labelSelector"] == "hearth.dev/stack-uid=s"


@in_virtual_time
async def test_a_list_that_is_refused_is_not_empty() -> None:
    cluster, connection, _ = make()
    connection.script[LIST] = api_errors.unavailable()
    with pytest.raises(errors.ApiStatusError):
        await cluster.list_children(CONFIG_MAP, "s")


@in_virtual_time
async def test_an_operator_of_one_namespace_lists_only_there() -> None:
    connection = ScriptedConnection({f"GET {COLLECTION}": page(config_map())})
    cluster = KubeWorkloadCluster(connection, Ears(), namespace="a")  # type: ignore[arg-type]  # the same methods
    assert len(await cluster.list_children(CONFIG_MAP, "s")) == 1


@pytest.mark.parametrize("allowed", [pytest.param(True, id="yes"), pytest.param(False, id="no")])
@in_virtual_time
async def test_an_access_review_is_answered(*, allowed: bool) -> None:
    cluster, connection, _ = make()
    path = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    connection.script[path] = {"status": {"allowed": allowed}}
    assert await cluster.is_allowed("patch", kind=CONFIG_MAP, namespace="a") == allowed


@in_virtual_time
async def test_a_change_of_kinds_is_reported() -> None:
    connection, ears = ScriptedConnection(), Ears()
    served = {"resource": "configmaps", "responseKind": {"kind": "ConfigMap"}, "scope": "Namespaced"}
    verbs = ["delete", "list", "patch", "watch"]
    version = {"version": "v1", "resources": [{**served, "verbs": verbs}]}
    core = {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": [version]}]}
    connection.script = {"GET /api": core, "GET /apis": {"kind": "APIGroupDiscoveryList"}}
    cluster = KubeWorkloadCluster(connection, ears)  # type: ignore[arg-type]  # the same methods
    await cluster.open()
    await cluster.refresh_kinds()
    assert cluster.kinds.find("v1", "ConfigMap") == CONFIG_MAP
    assert ears.kinds == 1
