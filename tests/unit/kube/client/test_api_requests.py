"""Paths, queries and bodies of API requests."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.kube.client import api_requests
from hearth.model import errors
from hearth.model.kinds import Kind
from hearth.model.sharding import WHOLE, Share

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
ROLE = Kind(
    group="rbac.authorization.k8s.io", version="v1", name="ClusterRole", plural="clusterroles", namespaced=False
)
RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "expected"),
    [
        pytest.param(CONFIG_MAP, "a", "b", "/api/v1/namespaces/a/configmaps/b", id="the core group"),
        pytest.param(ROLE, "", "b", f"{RBAC}/b", id="another group, cluster scope"),
        pytest.param(ROLE, "a", "b", f"{RBAC}/b", id="cluster scope knows no namespace"),
        pytest.param(ROLE, "", "system:a", f"{RBAC}/system%3Aa", id="a name with a colon"),
        pytest.param(CONFIG_MAP, "a", "c?d#e", "/api/v1/namespaces/a/configmaps/c%3Fd%23e", id="no way into a query"),
    ],
)
def test_where_an_object_is(kind: Kind, namespace: str, name: str, expected: str) -> None:
    assert api_requests.object_path(kind, namespace, name) == expected


NO_NAMES: list[Any] = ["../secrets/b", "web/scale", "web%2Fscale", ".", "..", "", "a\r\nb", "a" * 254, 500, None, ["a"]]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_segment_of_a_path_is_refused_before_anything_is_sent(name: Any) -> None:
    with pytest.raises(errors.ApiStatusError) as refused:
        api_requests.object_path(CONFIG_MAP, "a", name)
    assert (refused.value.code, "is not a valid object name" in str(refused.value)) == (422, True)


@pytest.mark.parametrize("namespace", [each for each in NO_NAMES if each])
def test_neither_does_a_namespace_lead_elsewhere(namespace: Any) -> None:
    with pytest.raises(errors.ApiStatusError):
        api_requests.collection_path(CONFIG_MAP, namespace)


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        pytest.param("a", "/api/v1/namespaces/a/configmaps", id="of one namespace"),
        pytest.param("", "/api/v1/configmaps", id="of all"),
    ],
)
def test_where_all_objects_of_a_kind_are(namespace: str, expected: str) -> None:
    assert api_requests.collection_path(CONFIG_MAP, namespace) == expected


def test_an_apply_is_strict_and_states_its_manager() -> None:
    expected = {"fieldManager": "hearth:a/b", "force": "true", "fieldValidation": "Strict"}
    assert api_requests.apply_query(manager="hearth:a/b", force=True) == expected
    assert api_requests.apply_query(manager="hearth:a/b", force=False) == {**expected, "force": "false"}


def test_a_generated_manifest_is_bound_to_no_object() -> None:
    original: dict[str, Any] = {
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b", "labels": {"c": "d"}, "uid": "1", "resourceVersion": "1"},
        "data": {"e": "f"},
    }
    expected = {
        "kind": "ConfigMap",
        "metadata": {"generateName": "a-", "namespace": "b", "labels": {"c": "d"}},
        "data": {"e": "f"},
    }
    assert api_requests.generated(original) == expected
    assert original["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("x" * 63, "x" * 50 + "-", id="long names are cut"),
        pytest.param("x" * 49 + ".y", "x" * 49 + "-", id="never behind a dot"),
    ],
)
def test_the_prefix_of_a_generated_name_leaves_room(name: str, expected: str) -> None:
    assert api_requests.generated({"metadata": {"name": name}})["metadata"]["generateName"] == expected


def test_a_page_of_children_continues_where_the_last_ended() -> None:
    first = api_requests.children_query("uid", continued="")
    assert first == {"labelSelector": "hearth.dev/stack-uid=uid", "limit": "500"}
    assert api_requests.children_query("uid", continued="token") == {**first, "continue": "token"}


def test_a_share_of_all_children_is_chosen_by_their_buckets() -> None:
    whole, last = (api_requests.children_selector(share) for share in (WHOLE, Share(index=63, count=64)))

    assert whole == {"labelSelector": "hearth.dev/stack-uid"}
    assert last == {"labelSelector": "hearth.dev/stack-uid,hearth.dev/bucket in (252,253,254,255)"}


@pytest.mark.parametrize(
    ("kind", "namespace", "expected"),
    [
        pytest.param(
            CONFIG_MAP,
            "a",
            {"verb": "patch", "group": "", "version": "v1", "resource": "configmaps", "namespace": "a"},
            id="in a namespace",
        ),
        pytest.param(
            ROLE,
            "a",
            {"verb": "patch", "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "clusterroles"},
            id="of cluster scope",
        ),
    ],
)
def test_what_an_access_review_asks(kind: Kind, namespace: str, expected: dict[str, str]) -> None:
    asked = api_requests.access_review("patch", kind=kind, namespace=namespace)
    assert asked["spec"] == {"resourceAttributes": expected}


def test_a_release_takes_what_is_ours_from_that_very_state_of_the_object() -> None:
    metadata = {
        "name": "a",
        "labels": {"hearth.dev/stack": "shop", "app": "x", "testing.hearth.dev/mine": "no"},
        "annotations": {"note": "y"},
    }
    expected = {"metadata": {"uid": "u", "resourceVersion": "7", "labels": {"hearth.dev/stack": None}}}
    assert api_requests.release_patch(metadata, uid="u", version=7) == expected
