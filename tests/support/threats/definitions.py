"""A StackDefinition of the kind Site and its instances, for attack tests."""

from __future__ import annotations

from support.threats.api import Object, find_path
from support.threats.world import READ, WRITE, Rule, ThreatWorld

GROUP = "platform.example"
NAME = f"sites.{GROUP}"
FLAGS = (f"--definition-groups={GROUP}",)
"""Flags of the operator that serves the definitions."""
SITES = Rule(group=GROUP, resources=("sites",), verbs=(*READ, *WRITE))


def make_definition(template: Object, **spec: object) -> Object:
    return {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1alpha1"}],
            "template": template,
            **spec,
        },
    }


def make_site(namespace: str, name: str, **spec: object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Site", "metadata": metadata, "spec": spec}


def find_ready(found: Object | None) -> tuple[str, str]:
    """Reason and message of `Ready`."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), {"reason": "", "message": ""})
    return ready["reason"], ready["message"]


def wait_ready(threats: ThreatWorld, kind: str, namespace: str, name: str, words: str) -> Object:
    """Wait until the phase, or reason and message of `Ready`, contain these words; return the object."""

    def look() -> Object | None:
        found = threats.api.get(kind, namespace, name)
        phase = ((found or {}).get("status") or {}).get("phase", "")
        return found if words in " ".join((phase, *find_ready(found))) else None

    try:
        return threats.wait_for(look, what=f"{words} of {name}")
    except AssertionError as error:
        raise AssertionError(f"{name} is not so: {find_ready(threats.api.get(kind, namespace, name))}") from error


def remove(threats: ThreatWorld) -> None:
    """Delete the definition with its instances, because it is cluster-scoped and not cleared with a namespace."""
    threats.operator.kill()
    if threats.api.send("GET", find_path("Site")).is_accepted:
        for namespace in {each["metadata"]["namespace"] for each in threats.api.list("Site")}:
            threats.api.delete_all("Site", namespace)
    threats.api.patch("StackDefinition", "", NAME, {"metadata": {"finalizers": None}})
    threats.api.delete("StackDefinition", "", NAME)
    threats.api.delete("CustomResourceDefinition", "", NAME)
    threats.wait_for(lambda: threats.api.get("CustomResourceDefinition", "", NAME) is None, what="the kind is gone")
