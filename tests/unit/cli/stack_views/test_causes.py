"""The explanation of a Stack: how it is drawn, and that nothing in objects can control a terminal or a shell."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from hearth.cli.stack_views.causes import advice, cause_drawing, pod_causes, stack_causes
from hearth.cli.stack_views.causes.cause import Cause, Evidence
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model.kinds import Kind

POD = Kind(group="", version="v1", name="Pod", plural="pods", namespaced=True)
HOSTILE = "\x1b[2J[red]; rm -rf ~"
STATUS = {"observedGeneration": 1, "phase": "UpdateFailed", "conditions": []}


def make_stack(**status: Any) -> StackState:
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 1}
    return StackState({"metadata": metadata, "spec": {}, "status": STATUS | status})


def make_pod(**status: Any) -> FoundChild:
    return FoundChild(POD, {"metadata": {"name": "web-1", "namespace": "prod", "uid": "u-2"}, "status": status})


def test_causes_are_drawn_below_what_they_explain() -> None:
    """The command behind an arrow, the time in brackets."""
    inner = Cause(subject="pod/web-1", message="crashes", command="kubectl logs web-1", since="1970-01-01T00:00:00Z")
    outer = Cause(subject="web", message="progressing", causes=(inner,))
    lines = ["".join(text for text, _ in line) for line in cause_drawing.draw([outer, inner], now=60.0)]

    assert lines == [
        "├─ web: progressing",
        "│  └─ pod/web-1: crashes [for 60s]",
        "│        → kubectl logs web-1",
        "└─ pod/web-1: crashes [for 60s]",
        "      → kubectl logs web-1",
    ]


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("exceeded quota: small, requested", "kubectl describe resourcequota small -n prod"),
        (
            'User "ann" cannot patch resource "deployments" in API group "apps" in the namespace "prod"',
            "kubectl auth can-i patch deployments.apps -n prod --as ann",
        ),
        (
            'failed calling webhook "a.b"',
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
        ("anything else", ""),
    ],
)
def test_well_known_messages_have_a_command(message: str, command: str) -> None:
    """Phrases decide about a hint alone."""
    assert advice.advise_text(message, "prod") == command


def test_a_hostile_status_reaches_neither_the_terminal_nor_the_shell() -> None:
    """All that a tenant writes is text, in messages and in commands."""
    problem = {"resource": HOSTILE, "kind": HOSTILE, "name": HOSTILE, "reason": HOSTILE, "message": HOSTILE}
    waits = [{"resource": HOSTILE, "hook": HOSTILE, "stack": HOSTILE}]
    conditions = [{"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE}]
    stack = make_stack(problems=[problem], breakpoints=waits, conditions=conditions)
    template = {"resources": {HOSTILE: {"manifest": {"kind": HOSTILE}}}}
    causes = stack_causes.explain(StackObjects(stack=stack, template=template, children=[]), Evidence())

    lines = ["".join(text for text, _ in line) for line in cause_drawing.draw(causes, now=0.0)]

    assert lines
    assert not any("\x1b" in line for line in lines)
    for cause in causes:
        assert "rm" not in shlex.split(cause.command)


def test_a_crash_is_explained_with_the_last_words() -> None:
    """And with the log of the container before."""
    ended = {"exitCode": 1, "reason": "Error", "message": HOSTILE}
    status = {"name": "app", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    cause = pod_causes.explain(make_pod(phase="Running", containerStatuses=[status]), Evidence())

    assert cause is not None
    assert cause.message.startswith("container app ends with exit code 1 (Error): \\x1b[2J[red]")
    assert cause.command == "kubectl logs web-1 -n prod -c app --previous"


@pytest.mark.parametrize("status", [{}, {"containerStatuses": 5}, {"conditions": [1]}, {"initContainerStatuses": [{}]}])
def test_a_pod_of_any_shape_is_explained(status: Any) -> None:
    """No field is taken for granted."""
    pod_causes.explain(make_pod(**status), Evidence())


def test_nothing_is_wrong_with_a_ready_stack() -> None:
    """Then there is nothing to explain."""
    conditions = [{"type": "Ready", "status": "True", "reason": "Complete", "message": "m"}]
    snapshot = StackObjects(stack=make_stack(phase="CreateComplete", conditions=conditions), template={}, children=[])

    assert stack_causes.explain(snapshot, Evidence()) == ()
    assert stack_causes.explain_resource(snapshot, ["web"], Evidence()) is None
