"""How failed work ended: which container, and what of its log may be shown."""

from __future__ import annotations

import base64

import pytest

from hearth.model.child import Object
from hearth.plan.health import object_reports

SECRET = "unspeakable-word"


def make_pod(name: str, *ends: tuple[str, int, str]) -> Object:
    """A pod whose containers ended. ends: name, exit code, time."""
    statuses = [
        {"name": container, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}
        for container, code, at in ends
    ]
    return {"metadata": {"name": name, "namespace": "prod"}, "status": {"containerStatuses": statuses}}


def test_the_container_that_failed_last_is_named() -> None:
    """Of all pods of a Job; those that ended well do not count."""
    pods = [
        make_pod("a", ("main", 1, "2026-01-01T00:00:00Z")),
        make_pod("b", ("side", 0, "2026-01-03T00:00:00Z"), ("main", 3, "2026-01-02T00:00:00Z")),
        {"metadata": {"name": "c"}},
    ]
    end = object_reports.find_run_end(pods)
    assert end is not None
    assert (end.pod, end.container, end.exit_code) == ("b", "main", 3)
    assert object_reports.describe_run_end(end, "first\nno such table: orders\n") == (
        "container main of pod/b ended with exit code 3: no such table: orders"
    )
    assert object_reports.find_run_end([make_pod("a", ("main", 0, ""))]) is None


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        pytest.param("", "", id="nothing was said"),
        pytest.param("a\nb\n\n  \n", "b", id="empty lines are no words"),
        pytest.param("\x1b[31mred\x07\u202eback", "[31mred back", id="no character that a terminal obeys"),
        pytest.param("x" * 1000, "x" * object_reports.LINE_LENGTH + "…", id="a long line is cut"),
        pytest.param("x" * object_reports.LOG_BYTES, "", id="a line that was cut by the read may end within a secret"),
        pytest.param(f"cannot log in with {SECRET}", "cannot log in with …", id="a sensitive value is redacted"),
        pytest.param(f"sent {base64.b64encode(SECRET.encode()).decode()}", "", id="in base 64 the line is left out"),
    ],
)
def test_the_last_line_of_a_log_is_safe_to_show(log: str, shown: str) -> None:
    """Its writer is a stranger to its reader."""
    assert object_reports.find_last_line(log, hidden={SECRET}) == shown
