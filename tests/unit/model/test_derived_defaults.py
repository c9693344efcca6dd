"""Defaults that the API server derives once: an apply sets them so that they follow the field they derive from."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import derived_defaults


@pytest.mark.parametrize(
    ("image", "is_always"),
    [
        ("web", True),
        ("web:latest", True),
        ("web:1", False),
        ("registry:5000/web", True),
        ("registry:5000/web:1", False),
        ("web@sha256:0", False),
        ("web:latest@sha256:0", True),
        ("", False),
        (7, False),
    ],
)
def test_the_latest_image_is_always_pulled(image: Any, *, is_always: bool) -> None:
    assert derived_defaults.is_always_pulled({"name": "a", "image": image}) is is_always


def test_what_the_manifest_sets_stays() -> None:
    container = {"name": "a", "image": "web", "imagePullPolicy": "Never"}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    assert derived_defaults.add_defaults(manifest) is manifest
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"policyTypes": ["Egress"]}}
    assert derived_defaults.add_defaults(policy) is policy


@pytest.mark.parametrize("spec", [None, "text", [], {"template": 1}, {"template": {"spec": {"containers": "a"}}}, {"template": {"spec": {"containers": [1, None]}}}])  # fmt: skip
def test_a_damaged_manifest_is_left_to_the_api_server(spec: Any) -> None:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    assert derived_defaults.add_defaults(manifest) is manifest
