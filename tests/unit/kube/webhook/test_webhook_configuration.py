"""The part of a webhook configuration that the operator keeps up to date."""

from __future__ import annotations

import base64
from typing import Any

from hearth.kube.webhook import webhook_configuration

BUNDLE = base64.b64encode(b"authority").decode()


def make(**config: Any) -> dict[str, Any]:
    return {"webhooks": [{"name": "stacks.hearth.dev", "clientConfig": config}]}


def find(raw: dict[str, Any]) -> list[dict[str, Any]]:
    return list(webhook_configuration.find_changes(raw, authorities=b"authority", path="/secret"))


def test_authority_and_path_are_set_once() -> None:
    """A configuration that has them costs no write."""
    service = {"name": "hearth-webhook", "namespace": "hearth-system"}
    steps = find(make(service=service))

    assert steps == [
        {"op": "test", "path": "/webhooks/0/name", "value": "stacks.hearth.dev"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE},
        {"op": "add", "path": "/webhooks/0/clientConfig/service/path", "value": "/secret/stacks.hearth.dev"},
    ]
    assert find(make(service={**service, "path": "/secret/stacks.hearth.dev"}, caBundle=BUNDLE)) == []


def test_a_url_keeps_its_host() -> None:
    """An operator outside of the cluster is called by URL."""
    steps = find(make(url="https://10.0.0.1:9443/old", caBundle=BUNDLE))

    url = "/webhooks/0/clientConfig/url"
    assert steps[1:] == [
        {"op": "test", "path": url, "value": "https://10.0.0.1:9443/old"},
        {"op": "replace", "path": url, "value": "https://10.0.0.1:9443/secret/stacks.hearth.dev"},
    ]


def test_certificates_name_whom_the_configurations_call() -> None:
    """The Service as the API server resolves it, or the host of the URL."""
    service = make(service={"name": "w", "namespace": "n"})

    assert list(webhook_configuration.find_hosts(service)) == ["w.n.svc"]
    assert list(webhook_configuration.find_hosts(make(url="https://[::1]:9443/"))) == ["::1"]
    assert list(webhook_configuration.find_hosts({})) == []
