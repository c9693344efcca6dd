"""The kubeconfig that a Stack's spec names, in any form that a client may have written."""

from __future__ import annotations

from typing import Any

from hearth.engine.cluster_objects import KubeconfigRef

DEFAULT_KEYS = ("value", "value.yaml")
"""The keys of a Secret that count where the spec names none, as in Flux."""


def find(spec: object) -> KubeconfigRef | None:
    """Return the reference; None if the objects are in this cluster. An unreadable one has no name."""
    found: Any = spec.get("kubeConfig") if isinstance(spec, dict) else None
    if found is None:
        return None
    secret = found.get("secretRef") if isinstance(found, dict) else None
    name, key = (secret.get("name"), secret.get("key")) if isinstance(secret, dict) else (None, None)
    return KubeconfigRef(name=name if isinstance(name, str) else "", key=key if isinstance(key, str) else "")
