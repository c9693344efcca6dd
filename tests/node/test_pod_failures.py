"""The messages for users when Pods fail: phase, reason and `kubectl stack why`, on a real node."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from support.ecosystem import kinds
from support.node import node_cluster, pod_failures
from support.node.node_cluster import NodeCluster, NodeUser
from support.node.pod_failures import POD_FAILURES, PodFailure

ASKING = threading.Semaphore(2)
"""Limits concurrent runs of `kubectl stack`, because the Pods need CPU as well."""


def describe(user: NodeUser, name: str) -> str:
    """The output of `kubectl stack` for the Stack; the exit code must be 0 or 1."""
    status = user.read_stack(name).get("status", {})
    reason = next((each["reason"] for each in status.get("conditions", ()) if each["type"] == "Ready"), "")
    shown = user.run_stack("why", name)
    return f"{status.get('phase')} {reason}\n{shown.stdout}{shown.stderr}"


def find_missing(text: str, failure: PodFailure) -> list[str]:
    """The expected lines that the text lacks."""
    first, _, explanation = text.partition("\n")
    lines = [re.sub(r"\s+", " ", line).strip() for line in explanation.splitlines()]
    missing = [each for each in failure.why if not any(is_in(each, line) for line in lines)]
    return missing if is_in(f"CreateInProgress {failure.reason}", first) else [first, *missing]


def is_in(pattern: str, line: str) -> bool:
    """Whether a line contains the pattern. Only `*` is special in a pattern."""
    return re.search(".*".join(map(re.escape, pattern.split("*"))), line) is not None


def play(user: NodeUser, name: str, failure: PodFailure) -> str:
    """Create the Stack; return the output once it is as expected, or after the time limit."""
    user.kubectl.apply([kinds.make_stack(name, {"web": {"manifest": failure.manifest, **failure.rules}})])
    shown = [""]

    def is_explained() -> bool:
        with ASKING:
            shown[0] = describe(user, name)
        return find_missing(shown[0], failure) == []

    # All cases share the CPU: on a busy machine, each gets one answer per minute.
    patience = 3 * node_cluster.PATIENCE_SECONDS
    node_cluster.wait_until(
        name, is_explained, lambda: f"{find_missing(shown[0], failure)} not in\n{shown[0]}", patience
    )
    return shown[0]


@pytest.fixture(scope="module")
def outcomes(node: NodeCluster, installed: float, request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The outcomes of all situations, played in parallel."""
    user = node.make_user()
    cases = node_cluster.find_selected(request, POD_FAILURES, "name")
    return node_cluster.play_together(cases, lambda name, failure: play(user, name, failure))


@pytest.mark.parametrize("name", POD_FAILURES)
def test_the_cause_is_named(outcomes: Mapping[str, Any], name: str) -> None:
    """The output contains phase, reason and container."""
    assert find_missing(node_cluster.find_outcome(outcomes, name), POD_FAILURES[name]) == []


def test_a_node_that_is_gone_is_named(node: NodeCluster, user: NodeUser) -> None:
    manifest = pod_failures.make_deployment(pod_failures.make_container(**pod_failures.READY))
    user.kubectl.apply([kinds.make_stack("gone", {"web": {"manifest": manifest}})])
    user.kubectl.wait("stack/gone", "condition=Ready")
    node.signal_program("kubelet", signal.SIGSTOP)
    try:
        node_cluster.wait_until(
            "the node", lambda: is_in("node node0 is not ready*Kubelet stopped posting", describe(user, "gone")),
            lambda: describe(user, "gone"),
        )  # fmt: skip
    finally:
        node.signal_program("kubelet", signal.SIGCONT)

    user.kubectl.wait("stack/gone", "condition=Ready")
