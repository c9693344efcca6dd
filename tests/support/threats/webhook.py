"""The admission webhook of the operator under test, under the shipped configurations.

The API server has no Services here, so the configurations call a URL on loopback instead; nothing else is changed.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from support import free_port
from support.threats import installation
from support.threats.api import Api, Object, find_path
from support.threats.world import ThreatWorld, make_stack

NAME = "hearth-webhook"
SYSTEM = "hearth-system"
KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
MISTAKEN = {
    "a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "${params.nothing}"}}},
    "b": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}, "dependsOn": ["nowhere"]},
    "c": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "${a.data.("}}},
}
"""Resources that every review rejects."""


@dataclass(slots=True, kw_only=True)
class Reviewed:
    """A world whose operator serves the webhook."""

    threats: ThreatWorld
    port: int

    def point_to(self, port: int) -> None:
        """Let the API server call that port, with the path that the operator has set."""
        for kind in KINDS:
            found = self.threats.api.get(kind, "", NAME)
            for index, each in enumerate(found["webhooks"] if found else ()):
                before = urllib.parse.urlsplit(each["clientConfig"]["url"])
                url = before._replace(netloc=f"127.0.0.1:{port}").geturl()
                steps = [{"op": "add", "path": f"/webhooks/{index}/clientConfig/url", "value": url}]
                self.threats.api.patch(kind, "", NAME, steps).expect()

    def is_reviewing(self) -> bool:
        """Whether the API server asks the operator."""
        stack = make_stack("default", "probe", MISTAKEN)
        return self.threats.api.send("POST", find_path("Stack", "default"), body=stack, dryRun="All").code == 422

    def read_configuration(self, kind: str = KINDS[0]) -> Object:
        found = self.threats.api.get(kind, "", NAME)
        assert found is not None
        return found


@contextlib.contextmanager
def serve(threats: ThreatWorld, *options: str) -> Iterator[Reviewed]:
    """Within the block, the operator runs with these options and the webhook, and the API server calls it."""
    made = Reviewed(threats=threats, port=free_port.find_free_port())
    configure(threats.api, made.port)
    threats.operator.restart(*options, f"--webhook-address=127.0.0.1:{made.port}")
    threats.wait_for(made.is_reviewing, what="the API server asks the webhook")
    try:
        yield made
    finally:
        for kind in KINDS:
            threats.api.delete(kind, "", NAME)
        threats.api.delete("Secret", SYSTEM, NAME)


def configure(api: Api, port: int) -> None:
    """Install the shipped configurations, with a URL for the Service."""
    file = installation.find_root() / "manifests" / "install" / "webhook.yaml"
    for manifest in yaml.safe_load_all(file.read_text()):
        for webhook in manifest.get("webhooks", ()):
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}/"}
        if manifest["kind"] in KINDS:
            api.apply(manifest).expect()
