"""Converts a user's manifest to the form that the operator applies.

The applied form omits fields that the API server or a controller computes. Otherwise each apply would reset such a
field, and its next computed value would look like drift. It also has `stringData` of a Secret as `data`. The API server
stores these keys as `data` without a field manager, so Hearth could neither detect drift nor remove a key.

The conversion depends only on the manifest, never on the live object.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hearth.model import object_fields

Object: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[Any, ...]
"""A path in a manifest; the first key of one is a name."""

CA_INJECTORS: Final = frozenset(
    {
        "cert-manager.io/inject-ca-from",
        "cert-manager.io/inject-ca-from-secret",
        "cert-manager.io/inject-apiserver-ca",
        "certmanager.k8s.io/inject-ca-from",
        "certmanager.k8s.io/inject-apiserver-ca",
        "service.beta.openshift.io/inject-cabundle",
    }
)
"""Annotations that make a controller write the `caBundle` of the object.

Source: cert-manager's documentation of its CA injector, and OpenShift's documentation of its service CA.
"""
REVISION: Final = "deployment.kubernetes.io/revision"
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def convert(manifest: Object, *, group: str, kind: str) -> Object:
    """Return the manifest in its applied form; the same object if nothing differs. The original is unchanged."""
    conversion = CONVERSIONS.get((group, kind))
    return conversion(manifest) if conversion is not None else manifest


def find_applied_path(path: Path, *, group: str, kind: str) -> Path:
    """Return the path that a field of the user's manifest has in the applied one."""
    is_text = (group, kind) == SECRET and path[:1] == ("stringData",)
    return ("data", *path[1:]) if is_text else path


def find_unencodable(manifest: Object, *, group: str, kind: str) -> Iterator[str]:
    """Find the keys of `stringData` whose value is not text, so that it cannot be converted."""
    stated = manifest.get("stringData") if (group, kind) == SECRET else None
    if isinstance(stated, dict):
        yield from (key for key, value in stated.items() if value is not None and not isinstance(value, str))


def encode_texts(manifest: Object) -> Object:
    """Return a Secret with its `stringData` merged into `data`. `stringData` takes precedence, as in the API server."""
    stated = manifest.get("stringData")
    data = manifest.get("data")
    if not isinstance(stated, dict) or not isinstance(data, dict | None):
        return manifest
    encoded = {key: encode(value) for key, value in stated.items() if isinstance(value, str)}
    kept = {key: value for key, value in manifest.items() if key != "stringData"}
    return {**kept, "data": {**(data or {}), **encoded}} if encoded or data is not None else kept


def encode(text: str) -> str:
    """Return the text in Base64. A lone surrogate, which is not valid text, becomes a question mark."""
    return base64.b64encode(text.encode(errors="replace")).decode()


def drop_aggregated_rules(manifest: Object) -> Object:
    """Return a ClusterRole without the rules that a controller aggregates from other ClusterRoles."""
    made: Object = without(manifest, ("rules",)) if manifest.get("aggregationRule") else manifest
    return made


def drop_injected_bundle(manifest: Object, *path: str) -> Object:
    """Return the object without certificates at `path` that a controller writes or that are a placeholder."""
    found = object_fields.find(manifest, *path)
    is_injected = found is not None and (has_injector(manifest) or is_blank(found))
    return without(manifest, path) if is_injected else manifest


def drop_webhook_bundles(manifest: Object) -> Object:
    """Return the webhook configuration without the certificates that a controller writes."""
    webhooks = manifest.get("webhooks")
    if not isinstance(webhooks, list):
        return manifest
    is_injected = has_injector(manifest)
    made = [
        without(each, ("clientConfig", "caBundle"))
        if is_injected or is_blank(object_fields.find(each, "clientConfig", "caBundle"))
        else each
        for each in webhooks
    ]
    is_changed = any(one is not other for one, other in zip(made, webhooks, strict=True))
    return {**manifest, "webhooks": made} if is_changed else manifest


def has_injector(manifest: Object) -> bool:
    """Return whether an annotation asks a controller for the certificates of the object."""
    annotations = object_fields.find(manifest, "metadata", "annotations")
    return isinstance(annotations, dict) and not CA_INJECTORS.isdisjoint(annotations)


def is_blank(bundle: Any) -> bool:
    """Whether Base64 certificates are only a placeholder, for example `Cg==`, one line break."""
    if not isinstance(bundle, str):
        return False
    try:
        return not base64.b64decode(bundle).strip()
    except (ValueError, binascii.Error):
        return False


def without_empty(manifest: Object, path: tuple[str, ...]) -> Object:
    """Return the map without an empty text at `path`, because a controller or the scheduler fills it in."""
    return without(manifest, path) if object_fields.find(manifest, *path) == "" else manifest


def without(value: Any, path: tuple[str, ...]) -> Any:
    """Return the map without the value at `path`; the same object if `path` is empty there."""
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {key: inner for key, inner in value.items() if key != path[0]}
    inner = without(value[path[0]], path[1:])
    return value if inner is value[path[0]] else {**value, path[0]: inner}


SECRET: Final = ("", "Secret")
CONVERSIONS: Final[Mapping[tuple[str, str], Callable[[Object], Object]]] = {
    SECRET: encode_texts,
    ("", "PersistentVolumeClaim"): lambda manifest: without_empty(manifest, ("spec", "volumeName")),
    ("", "Pod"): lambda manifest: without_empty(manifest, ("spec", "nodeName")),
    # Counters that the controllers of these kinds update.
    ("apps", "Deployment"): lambda manifest: without(manifest, ("metadata", "annotations", REVISION)),
    ("apps", "DaemonSet"): lambda manifest: without(manifest, ("metadata", "annotations", TEMPLATE_GENERATION)),
    ("rbac.authorization.k8s.io", "ClusterRole"): drop_aggregated_rules,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): drop_webhook_bundles,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): drop_webhook_bundles,
    ("apiregistration.k8s.io", "APIService"): lambda manifest: drop_injected_bundle(manifest, "spec", "caBundle"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): lambda manifest: drop_injected_bundle(
        manifest, *("spec", "conversion", "webhook", "clientConfig", "caBundle")
    ),
}
"""Fields that are left out or rewritten, by group and kind."""
