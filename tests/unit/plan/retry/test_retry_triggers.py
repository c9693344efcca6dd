"""The causes of refusals, the objects that trigger a retry, and the fate of waiting steps."""

from __future__ import annotations

import pytest

from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import api_errors, backoff, retry_triggers
from hearth.plan.retry.backoff import Attempt, BackoffPolicy, RemovalAttempt, StepFailure
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state.memory import InMemoryState
from hearth.plan.state.steps import Apply

WEB = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
ROLE = Kind(group=retry_triggers.RBAC, version="v1", name="Role", plural="roles", namespaced=True)
CLUSTER_ROLE = Kind(
    group=retry_triggers.RBAC, version="v1", name="ClusterRole", plural="clusterroles", namespaced=False
)
LIMITS, RIGHTS = (RetryTrigger(type=what, namespace="shop") for what in (TriggerType.LIMITS, TriggerType.RIGHTS))
ASKED, DENIED, LATER = (
    each(message="") for each in (api_errors.NeedsAccessReview, api_errors.Denied, api_errors.Unavailable)
)
STEADY = BackoffPolicy(jitter=lambda: 0.0)


def ref_of(kind: Kind) -> ObjectRef:
    """An object of that kind."""
    return ObjectRef(group=kind.group, kind=kind.name, namespace="shop" if kind.namespaced else "", name="web")


@pytest.mark.parametrize(
    ("first", "last", "code", "kind", "expected"),
    [
        pytest.param(ASKED, LATER, 403, WEB, {LIMITS, retry_triggers.KINDS}, id="something is full, or its kind goes"),
        pytest.param(
            ASKED, LATER, 403, ROLE, {LIMITS, RIGHTS, retry_triggers.KINDS}, id="rights that no one may pass on"
        ),
        pytest.param(ASKED, DENIED, 403, WEB, {RIGHTS}, id="no right"),
        pytest.param(
            ASKED,
            LATER,
            403,
            CLUSTER_ROLE,
            {RetryTrigger(type=TriggerType.RIGHTS), retry_triggers.KINDS},
            id="no namespace, no quota",
        ),
        pytest.param(DENIED, DENIED, 400, WEB, {retry_triggers.ADMISSION}, id="a webhook or a policy"),
        pytest.param(LATER, LATER, 500, WEB, {retry_triggers.WEBHOOKS}, id="a webhook that does not answer"),
        pytest.param(LATER, LATER, 503, WEB, {retry_triggers.SERVER}, id="a server that is away"),
        pytest.param(LATER, LATER, 429, WEB, set(), id="a server that is busy says when"),
        pytest.param(
            api_errors.NamespaceNotFound(message=""),
            api_errors.NamespaceNotFound(message=""),
            404,
            WEB,
            {RetryTrigger(type=TriggerType.NAMESPACE, name="shop")},
            id="no namespace",
        ),
        pytest.param(
            api_errors.MaybeImmutable(message="", fields=()),
            DENIED,
            422,
            WEB,
            {retry_triggers.ADMISSION, retry_triggers.object_trigger(WEB, ref_of(WEB))},
            id="what others made of the object",
        ),
    ],
)
def test_a_refusal_names_what_it_hangs_on(
    first: api_errors.ErrorClass, last: api_errors.ErrorClass, code: int, kind: Kind, expected: set[RetryTrigger]
) -> None:
    assert set(retry_triggers.find_triggers(first, last, code=code, kind=kind, ref=ref_of(kind))) == expected


def test_nothing_is_watched_in_all_namespaces_but_what_lies_in_none() -> None:
    causes = [RetryTrigger(type=what, namespace="shop", name="web", kind=WEB) for what in TriggerType]
    sources = [source for cause in causes for source in retry_triggers.find_sources(cause)]
    assert {"Role", "ClusterRole", "ResourceQuota"} <= {source.kind for source in sources}
    for source in sources:
        assert source.namespace or source.kind.startswith(("Cluster", "Validating", "Mutating")) or source.name


def refuse(memory: InMemoryState, times: int, *, failure: StepFailure, now: float = 0.0) -> Attempt:
    """Let one resource be refused this number of times."""
    for _ in range(times):
        memory.attempts["web"] = backoff.after_failure(
            memory.attempts.get("web"), failure, subject=RemovalAttempt(uid="s"), now=now, backoff=STEADY
        )
    return memory.attempts["web"]


FULL = StepFailure(reason="Unavailable", message="full", causes=(LIMITS,))


def test_news_makes_an_attempt_due_at_once_and_leaves_its_count() -> None:
    memory = InMemoryState()
    assert refuse(memory, 8, failure=FULL).retry_at == 128.0
    assert memory.on_trigger(LIMITS, now=60.0) == ["web"]
    assert (memory.attempts["web"].retry_at, memory.attempts["web"].failures) == (60.0, 8)
    assert refuse(memory, 1, failure=FULL, now=60.0).retry_at == 60.0 + 256.0


def test_news_of_something_else_changes_nothing() -> None:
    memory = InMemoryState()
    before = refuse(memory, 8, failure=FULL)
    assert memory.on_trigger(RIGHTS, now=60.0) == []
    assert memory.attempts["web"] == before


def test_news_in_a_row_have_it_tried_less_often_the_longer_it_failed() -> None:
    memory = InMemoryState()
    refuse(memory, 8, failure=FULL)
    memory.on_trigger(LIMITS, now=1.0)
    assert memory.attempts["web"].retry_at == 8.0
    assert memory.on_trigger(LIMITS, now=2.0) == []


def test_a_server_that_asked_for_patience_is_given_it() -> None:
    memory = InMemoryState()
    refuse(memory, 8, failure=StepFailure(reason="Unavailable", message="", retry_after=30.0, causes=(LIMITS,)))
    memory.on_trigger(LIMITS, now=10.0)
    assert memory.attempts["web"].retry_at == 30.0


def test_news_while_a_step_is_in_progress_are_kept_for_it() -> None:
    memory = InMemoryState()
    memory.in_flight["web"] = Apply(resource="web", kind=WEB, ref=ref_of(WEB), manifest={}, hash="1", uid=None)
    memory.on_trigger(LIMITS, now=1.0)
    assert (memory.finish("web"), memory.in_flight) == ({LIMITS}, {})
    assert memory.finish("web") == set()
