"""The part of a manifest that is applied: no fields that the API server or a controller computes; a Secret's texts
become data.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.model import applied_manifest

CERTIFICATES = "LS0tLS1CRUdJTg=="
INJECTED = {"annotations": {"cert-manager.io/inject-ca-from": "a/b"}}


def hook(bundle: Any) -> dict[str, Any]:
    """One webhook with these certificates."""
    return {"name": "a", "clientConfig": {"url": "https://a", **({} if bundle is None else {"caBundle": bundle})}}


def role(**fields: Any) -> dict[str, Any]:
    return {"kind": "ClusterRole", **fields}


COLLECTING = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
RULES = [{"verbs": ["get"]}]
ADMISSION = "admissionregistration.k8s.io"
CASES = {
    "texts of a Secret": ("", "Secret", {"stringData": {"a": "b"}}, {"data": {"a": "Yg=="}}),
    "texts over data": ("", "Secret", {"data": {"a": "eA==", "c": "eA=="}, "stringData": {"a": "b"}}, {"data": {"a": "Yg==", "c": "eA=="}}),
    "an empty text": ("", "Secret", {"stringData": {"a": ""}}, {"data": {"a": ""}}),
    "letters beyond ASCII": ("", "Secret", {"stringData": {"a": "ä€\n"}}, {"data": {"a": "w6TigqwK"}}),
    "no texts": ("", "Secret", {"stringData": {}, "type": "Opaque"}, {"type": "Opaque"}),
    "a null among texts": ("", "Secret", {"stringData": {"a": None, "b": "c"}}, {"data": {"b": "Yw=="}}),
    "texts of another kind": ("example.com", "Secret", {"stringData": {"a": "b"}}, None),
    "rules that are collected": ("rbac.authorization.k8s.io", "ClusterRole", role(**COLLECTING, rules=[]), role(**COLLECTING)),
    "rules that a controller overwrites": ("rbac.authorization.k8s.io", "ClusterRole", role(**COLLECTING, rules=RULES), role(**COLLECTING)),
    "rules that are stated": ("rbac.authorization.k8s.io", "ClusterRole", role(rules=RULES), None),
    "an empty rule of aggregation": ("rbac.authorization.k8s.io", "ClusterRole", role(aggregationRule={}, rules=RULES), None),
    "an empty volume": ("", "PersistentVolumeClaim", {"spec": {"volumeName": "", "a": 1}}, {"spec": {"a": 1}}),
    "a chosen volume": ("", "PersistentVolumeClaim", {"spec": {"volumeName": "v"}}, None),
    "an empty node": ("", "Pod", {"spec": {"nodeName": ""}}, {"spec": {}}),
    "a counted revision": (
        *("apps", "Deployment"),
        {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3", "a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ),
    "a counted generation": (
        *("apps", "DaemonSet"),
        {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "3"}}},
        {"metadata": {"annotations": {}}},
    ),
    "an empty bundle": (ADMISSION, "ValidatingWebhookConfiguration", {"webhooks": [hook("")]}, {"webhooks": [hook(None)]}),
    "a line break as bundle": (ADMISSION, "MutatingWebhookConfiguration", {"webhooks": [hook("Cg=="), hook(CERTIFICATES)]}, {"webhooks": [hook(None), hook(CERTIFICATES)]}),
    "a bundle of one's own": (ADMISSION, "MutatingWebhookConfiguration", {"webhooks": [hook(CERTIFICATES)]}, None),
    "an injected bundle": (
        *(ADMISSION, "MutatingWebhookConfiguration"),
        {"metadata": INJECTED, "webhooks": [hook(CERTIFICATES)]},
        {"metadata": INJECTED, "webhooks": [hook(None)]},
    ),
    "an injected bundle of an API": (
        *("apiregistration.k8s.io", "APIService"),
        {"metadata": INJECTED, "spec": {"caBundle": CERTIFICATES, "group": "a"}},
        {"metadata": INJECTED, "spec": {"group": "a"}},
    ),
    "a placeholder of a conversion": (
        *("apiextensions.k8s.io", "CustomResourceDefinition"),
        {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "Cg=="}}}}},
        {"spec": {"conversion": {"webhook": {"clientConfig": {}}}}},
    ),
    "an ordinary kind": ("", "ConfigMap", {"data": {"a": "b"}, "stringData": {"a": "b"}}, None),
}  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "manifest", "applied"), CASES.values(), ids=CASES.keys())
def test_the_applied_form(group: str, kind: str, manifest: Any, applied: Any) -> None:
    before = copy.deepcopy(manifest)
    found = applied_manifest.convert(manifest, group=group, kind=kind)
    assert manifest == before
    assert found == (before if applied is None else applied)
    assert (found is manifest) == (applied is None)
    assert applied_manifest.convert(found, group=group, kind=kind) is found


@pytest.mark.parametrize(("group", "kind"), applied_manifest.CONVERSIONS)
@pytest.mark.parametrize(
    "part", [None, "text", 3, [], [1, "a", None], {"spec": None}, {"annotations": "x"}, {"a": [{}]}], ids=repr
)
def test_any_shape_is_bearable(group: str, kind: str, part: Any) -> None:
    """An expression can return any shape; the API server reports the mistake."""
    fields = ("metadata", "spec", "data", "stringData", "webhooks", "rules", "aggregationRule")
    for field in fields:
        applied_manifest.convert({field: part}, group=group, kind=kind)
        list(applied_manifest.find_unencodable({field: part}, group=group, kind=kind))


def test_a_value_that_is_no_text_is_found() -> None:
    manifest = {"stringData": {"a": "b", "port": 5, "flag": True, "none": None}}
    assert list(applied_manifest.find_unencodable(manifest, group="", kind="Secret")) == ["port", "flag"]
    assert list(applied_manifest.find_unencodable(manifest, group="", kind="ConfigMap")) == []


def test_paths_follow() -> None:
    assert applied_manifest.find_applied_path(("stringData", "a"), group="", kind="Secret") == ("data", "a")
    assert applied_manifest.find_applied_path(("stringData",), group="", kind="Secret") == ("data",)
    assert applied_manifest.find_applied_path(("stringData",), group="x", kind="Secret") == ("stringData",)
    assert applied_manifest.find_applied_path(("metadata", "a"), group="", kind="Secret") == ("metadata", "a")
