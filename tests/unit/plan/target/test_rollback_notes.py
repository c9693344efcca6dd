"""Messages about a rollback that an edit overrides."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.target import rollback_notes
from hearth.plan.target.target import RollbackRequest, Target, TargetCause


def make(revision: int, cause: TargetCause, *, rollback: RollbackRequest | None = None) -> Target:
    return Target(revision=revision, cause=cause, since=0.0, rollback=rollback)


ORDER = RollbackRequest(to_revision=0, spec_hash="old", revision=2)
SNAPSHOT = RollbackRequest(to_revision=2, spec_hash="old", revision=2, snapshot="before-migration")


@pytest.mark.parametrize(
    ("target", "warning"),
    [
        pytest.param(
            make(5, TargetCause.SPEC, rollback=ORDER),
            "spec.rollback.toRevision: 0 has no effect: template or parameters were changed after it was written, and "
            "the later change takes precedence; remove it, or roll back again: kubectl stack rollback shop --to 2 -n prod",
            id="a later edit",
        ),
        pytest.param(
            make(5, TargetCause.SPEC, rollback=SNAPSHOT),
            "spec.rollback.toSnapshot: before-migration has no effect: template or parameters were changed after it was "
            "written, and the later change takes precedence; remove it, or roll back again: kubectl stack restore shop "
            "before-migration -n prod",
            id="a snapshot",
        ),
        pytest.param(make(2, TargetCause.ROLLBACK, rollback=ORDER), None, id="the rollback is the target"),
        pytest.param(make(2, TargetCause.SPEC, rollback=ORDER), None, id="the spec has the same definition"),
        pytest.param(make(5, TargetCause.SPEC), None, id="no request"),
        pytest.param(None, None, id="no target yet"),
    ],
)
def test_a_request_without_effect_is_named(target: Target | None, warning: str | None) -> None:
    found = list(rollback_notes.describe_ignored(target, name="shop", namespace="prod"))

    assert found == ([] if warning is None else [warning])


def test_the_end_names_what_comes_back() -> None:
    before, target = make(2, TargetCause.AUTOMATIC), make(5, TargetCause.SPEC)

    assert rollback_notes.describe_end(before, target, old=["a", "b"], new=["a", "c"], changed=["a"]) == (
        "ended the rollback to revision 2: the whole definition in the spec is restored as revision 5, including all changes that "
        "the rollback had undone (changed: a; added: c; removed: b)"
    )
    many = rollback_notes.describe_end(before, target, old=[], new=[f"r{at}" for at in range(1000)], changed=[])
    assert many.endswith("r18, r19 and 980 more)")
    nothing = rollback_notes.describe_end(make(0, TargetCause.AUTOMATIC), target, old=["a"], new=["a"], changed=[])
    assert nothing.startswith("ended the rollback to nothing: ")
    assert nothing.endswith("undone")


@pytest.mark.parametrize(
    ("status", "warning"),
    [
        pytest.param(
            {"target": {"cause": "AutomaticRollback", "revision": 2}, "lastFailedRevision": 4},
            "spec: this edit ends the rollback to revision 2; the whole definition in the spec is restored, including all changes that "
            "the rollback undid: kubectl stack history shop 2 4 -n prod",
            id="automatic",
        ),
        pytest.param(
            {"target": {"cause": "Rollback", "revision": 2}, "lastFailedRevision": 3},
            "spec: this edit ends the rollback to revision 2; the whole definition in the spec is restored, including all changes that "
            "the rollback undid: kubectl stack history shop -n prod",
            id="by a user, who may have gone back from another one than what failed last",
        ),
        pytest.param({"target": {"cause": "Spec", "revision": 2}}, "", id="no rollback"),
        pytest.param({"target": {"cause": "Rollback", "revision": "$(id)"}}, "", id="forged"),
        pytest.param({"target": ["Rollback"]}, "", id="another type"),
        pytest.param({"target": {"cause": ["Rollback"], "revision": 2}}, "", id="another type of cause"),
    ],
)
def test_an_edit_is_warned_before_it_is_stored(status: dict[str, Any], warning: str) -> None:
    assert rollback_notes.warn_of_end(status, name="shop", namespace="prod") == warning
