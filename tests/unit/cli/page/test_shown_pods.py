"""The pods of a resource as the page shows them."""

from __future__ import annotations

from typing import Any

from hearth.cli.page import shown_resource
from hearth.cli.stack_views.causes import explanation
from hearth.cli.stack_views.tree.snapshot import FoundChild
from hearth.model import limits
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import POD

WEB = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
SETS = Kind(group="apps", version="v1", name="ReplicaSet", plural="replicasets", namespaced=True)


def make(kind: Kind, name: str, *, owner: str = "", **raw: Any) -> FoundChild:
    """An object of that kind, owned by another."""
    metadata = {"name": name, "namespace": "prod", "uid": f"uid-{name}", "creationTimestamp": "1970-01-01T00:00:00Z"}
    owners = [{"uid": f"uid-{owner}"}] if owner else []
    return FoundChild(kind=kind, raw={"metadata": {**metadata, "ownerReferences": owners}, **raw})


def make_pod(name: str, owner: str, **status: Any) -> FoundChild:
    """A pod with two containers and an init container."""
    containers = [{"name": "web"}, {"name": "proxy\x1b[31m"}]
    spec = {"initContainers": [{"name": "init"}], "containers": containers, "nodeName": "n1"}
    return make(POD, name, owner=owner, spec=spec, status=status)


def test_a_workload_shows_the_pods_below_it() -> None:
    """Also those of what it owns; each with its state, and no character that a browser or a terminal would obey."""
    states = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    pod = make_pod("web-1-a", "web-1", phase="Running", containerStatuses=states)
    evidence = explanation.make_evidence([make(SETS, "web-1", owner="web"), pod], [])

    (shown,) = shown_resource.describe_pods(make(WEB, "web"), evidence, now=90.0)

    assert (shown.name, shown.phase, shown.ready, shown.restarts, shown.age, shown.node) == (
        *("web-1-a", "Running", "1/2", 3, "90s", "n1"),
    )
    assert shown.containers == ("init", "web", "proxy\\x1b[31m")


def test_no_workload_shows_more_than_its_newest() -> None:
    """However many there are."""
    pods = [make_pod(f"web-{number}", "web", phase="Pending") for number in range(limits.PAGE_PODS + 5)]
    evidence = explanation.make_evidence(pods, [])

    assert len(shown_resource.describe_pods(make(WEB, "web"), evidence, now=1.0)) == limits.PAGE_PODS


def test_a_status_of_any_shape_is_shown() -> None:
    """Another client may have written it."""
    odd = make(POD, "odd", spec={"containers": "x"}, status={"containerStatuses": [{"restartCount": "many"}, 5]})

    (shown,) = shown_resource.describe_pods(odd, explanation.make_evidence([], []), now=1.0)

    assert (shown.ready, shown.restarts, shown.containers) == ("0/0", 0, ())
