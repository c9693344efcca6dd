"""The messages for users when Pods fail: phase, reason and `kubectl stack why`, on a real node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.ecosystem import kinds
from support.node import node_cluster, reports
from support.node.node_cluster import NodeUser
from support.node.pod_failures import POD_FAILURES, PodFailure


def play(user: NodeUser, name: str, failure: PodFailure) -> str:
    """Create the Stack, and bring about the failure; return the reports about it."""

    def write(manifest: Any) -> None:
        user.kubectl.apply([kinds.make_stack(name, {"web": {"manifest": manifest, **failure.rules}})])

    write(failure.former or failure.manifest)
    if failure.former or failure.command:
        user.kubectl.wait(f"stack/{name}", "condition=Ready")
    if failure.former:
        write(failure.manifest)
    if failure.command:
        user.kubectl.call(*(each.replace("STACK", name) for each in failure.command))
    if failure.awaited:
        what, condition = failure.awaited
        node_cluster.wait_until(what, lambda: user.kubectl.get(*what.replace("STACK", name).split("/")))
        user.kubectl.wait(what.replace("STACK", name), condition)
    return reports.wait_for(user, name, failure)


@pytest.fixture(scope="module")
def outcomes(module_user: NodeUser, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The outcomes of all situations, played in parallel."""
    cases = node_cluster.find_selected(request, POD_FAILURES, "name")
    return node_cluster.play_together(cases, lambda name, failure: play(module_user, name, failure))


@pytest.mark.parametrize("name", POD_FAILURES)
def test_the_cause_is_named(outcomes: Mapping[str, Any], name: str) -> None:
    """The output contains phase, reason and container."""
    assert reports.find_missing(node_cluster.find_outcome(outcomes, name), POD_FAILURES[name]) == []
