"""The reaction to each kind of rejection, in the words of a real API server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import POD
from hearth.plan.retry import api_errors, retry_triggers
from hearth.plan.retry.api_errors import (
    ApplyConflict,
    Denied,
    DryRunVerdict,
    ErrorClass,
    InvalidManifest,
    KindNotServed,
    MaybeImmutable,
    NamespaceNotFound,
    NamespaceTerminating,
    NeedsAccessReview,
    NeedsDryRun,
    ObjectNotFound,
    StaleRead,
    Unavailable,
)
from hearth.plan.retry.retry_triggers import TriggerType
from support.units import error_texts

DEPLOYMENT = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
NAMESPACE = Kind(group="", version="v1", name="Namespace", plural="namespaces", namespaced=False)
WEB = ObjectRef(group="apps", kind="Deployment", namespace="shop", name="web")
PASSWORD = ObjectRef(group="", kind="Secret", namespace="shop", name="password")
OF_KIND = {"name": "web", "group": "apps", "kind": "Deployment"}
OF_RESOURCE: dict[str, Any] = {"name": "web", "group": "apps", "kind": "deployments"}
IMMUTABLE = {
    "reason": "FieldValueInvalid",
    "message": "Invalid value: {…}: field is immutable",
    "field": "spec.selector",
}


def status(
    reason: str = "", message: str = "no", *, causes: list[dict[str, str]] | None = None, **details: Any
) -> dict[str, Any]:
    """A refusal's body."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if causes is not None:
        details["causes"] = causes
    if details:
        body["details"] = details
    return body


def cause(field: str, reason: str = "FieldValueInvalid", message: str = "Invalid value: 1: no") -> dict[str, str]:
    return {"reason": reason, "message": message, "field": field}


def classify(code: int, body: dict[str, Any] | None, *, kind: Kind = DEPLOYMENT, size: int = 500) -> ErrorClass:
    """The reaction to a refused write of a Deployment."""
    return api_errors.classify(code, body, kind=kind, body_size=size)


ROWS: list[tuple[str, int, dict[str, Any] | None, type]] = [
    ("the path is not served at all", 404, None, KindNotServed),
    ("the built-in group has no such resource", 404, status("NotFound"), KindNotServed),
    ("the namespace is missing", 404, status("NotFound", name="shop", kind="namespaces"), NamespaceNotFound),
    ("the object is missing", 404, status("NotFound", **OF_RESOURCE), ObjectNotFound),
    ("a proxy in front has no server behind it", 503, None, Unavailable),
    ("a proxy forbids in its own words", 403, None, Unavailable),
    ("the server is busy", 429, None, Unavailable),
    ("a webhook does not want it now", 429, status("TooManyRequests", retryAfterSeconds=2), Unavailable),
    ("the server gives up waiting", 504, status("Timeout", causes=[cause("", "ResourceVersionTooLarge")]), Unavailable),
    ("the credentials are being rotated", 401, status("Unauthorized"), Unavailable),
    ("name in the body differs from the path", 400, status("BadRequest"), InvalidManifest),
    ("a webhook denies with its default code", 400, status(), Denied),
    ("the body is too large to be read", 413, status("RequestEntityTooLarge"), InvalidManifest),
    ("the kind's server knows no patch", 405, status("MethodNotAllowed"), InvalidManifest),
    ("the kind's server knows no apply", 415, status("UnsupportedMediaType"), InvalidManifest),
    ("the namespace is being deleted", 403, status("Forbidden", causes=[cause("metadata.namespace", "NamespaceTerminating")], **OF_RESOURCE), NamespaceTerminating),
    ("rights are missing, or a quota is full", 403, status("Forbidden", **OF_RESOURCE), NeedsAccessReview),
    ("a policy chose Forbidden", 403, status("Forbidden", causes=[{"message": "no"}], **OF_RESOURCE), Denied),
    ("a stated resourceVersion is not the object's", 409, status("Conflict", **OF_RESOURCE), StaleRead),
    ("a created name exists already", 409, status("AlreadyExists", **OF_RESOURCE), StaleRead),
    ("others own a field", 409, status("Conflict", causes=[cause(".spec.replicas", "FieldManagerConflict")]), ApplyConflict),
    ("a webhook chose 409", 409, status("Conflict"), Denied),
    ("an old version was asked for", 410, status("Expired"), StaleRead),
    ("the kind's own validation refuses a value", 422, status("Invalid", causes=[IMMUTABLE], **OF_KIND), MaybeImmutable),
    ("a map became null", 422, status("Invalid", causes=[cause("spec", "FieldValueTypeInvalid")], **OF_KIND), MaybeImmutable),
    ("a policy denies", 422, status("Invalid", causes=[{"message": "no"}], **OF_RESOURCE), Denied),
    ("a policy imitates a field", 422, status("Invalid", causes=[cause("spec.replicas")], **OF_RESOURCE), Denied),
    ("one of the causes names no field", 422, status("Invalid", causes=[IMMUTABLE, {"message": "no"}], **OF_KIND), Denied),
    ("a webhook chose 422", 422, status("Invalid"), Denied),
    ("another incarnation has the name", 422, status("Invalid", causes=[cause("metadata.uid")] * 2, **OF_KIND), StaleRead),
    ("a finalizer is added to what is being deleted", 422, status("Invalid", causes=[cause("metadata.finalizers", "FieldValueForbidden")], **OF_KIND), StaleRead),
    ("the name is no name", 422, status("Invalid", causes=[cause("metadata.name")], **OF_KIND), InvalidManifest),
    ("a label is too long", 422, status("Invalid", causes=[cause("metadata.labels")], **OF_KIND), InvalidManifest),
    ("annotations are too long", 422, status("Invalid", causes=[cause("metadata.annotations", "FieldValueTooLong")], **OF_KIND), InvalidManifest),
    ("data are too long", 422, status("Invalid", causes=[cause("[]", "FieldValueTooLong")], **OF_KIND), InvalidManifest),
    ("a word is none of the known ones", 422, status("Invalid", causes=[cause("spec.strategy.type", "FieldValueNotSupported")], **OF_KIND), InvalidManifest),
    ("immutable, and wrong at that", 422, status("Invalid", causes=[IMMUTABLE, cause("spec.x", "FieldValueNotSupported")], **OF_KIND), InvalidManifest),
    ("a webhook is unreachable", 500, status("InternalError", causes=[{"message": "no"}]), Unavailable),
    ("an apply has an unknown field", 500, status(), NeedsDryRun),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_every_refusal_has_its_reaction(code: int, body: dict[str, Any] | None, expected: type) -> None:
    assert type(classify(code, body)) is expected


@pytest.mark.parametrize(
    "body", [{}, {"details": "x"}, {"details": {"causes": "x"}}, {"details": {"causes": ["x", None]}}]
)
@pytest.mark.parametrize("code", [300, 400, 401, 403, 404, 409, 410, 413, 418, 422, 429, 500, 503, 599])
def test_any_shape_of_body_is_taken(code: int, body: dict[str, Any]) -> None:
    assert classify(code, body).message


def test_a_missing_namespace_object_is_an_object() -> None:
    body = status("NotFound", name="shop", kind="namespaces")
    assert isinstance(classify(404, body, kind=NAMESPACE), ObjectNotFound)


def test_what_is_too_large_to_be_stored_is_reported_by_its_size() -> None:
    assert isinstance(classify(500, status(), size=1_600_000), InvalidManifest)


def test_the_delay_that_the_server_asks_for_is_kept() -> None:
    assert classify(429, status("TooManyRequests", retryAfterSeconds=7)) == Unavailable(message="no", after=7.0)
    assert classify(503, status("ServiceUnavailable")) == Unavailable(message="no", after=None)


def test_refused_fields_are_named() -> None:
    invalid = classify(422, status("Invalid", causes=[IMMUTABLE, IMMUTABLE, cause("spec.x")], **OF_KIND))
    conflict = classify(409, status("Conflict", causes=[cause(".data.a", "FieldManagerConflict")]))
    assert isinstance(invalid, MaybeImmutable)
    assert isinstance(conflict, ApplyConflict)
    assert (invalid.fields, conflict.fields) == (("spec.selector", "spec.x"), ("data.a",))


ASKED = NeedsDryRun(message="unknown field")
REFUSED = MaybeImmutable(message="immutable", fields=("spec.selector",))


@pytest.mark.parametrize(
    ("refused", "answer", "expected"),
    [
        pytest.param(ASKED, InvalidManifest(message="b"), DryRunVerdict.INVALID, id="an unknown field"),
        pytest.param(ASKED, MaybeImmutable(message="b", fields=()), DryRunVerdict.INVALID, id="what is new cannot be immutable"),
        pytest.param(ASKED, Denied(message="b"), DryRunVerdict.UNKNOWN, id="a policy stands before the mistake"),
        pytest.param(ASKED, NeedsAccessReview(message="b"), DryRunVerdict.UNKNOWN, id="a full quota"),
        pytest.param(ASKED, NeedsDryRun(message="b"), DryRunVerdict.UNANSWERED, id="a broken conversion fails both"),
        pytest.param(REFUSED, MaybeImmutable(message="b", fields=("spec.selector", "spec.y")), DryRunVerdict.INVALID, id="the same field is wrong in a new object"),
        pytest.param(REFUSED, MaybeImmutable(message="b", fields=("spec.ports[0].nodePort",)), DryRunVerdict.UNKNOWN, id="a port that the object itself holds"),
        pytest.param(REFUSED, InvalidManifest(message="b"), DryRunVerdict.UNKNOWN, id="a refused name"),
        pytest.param(REFUSED, Denied(message="b"), DryRunVerdict.UNKNOWN, id="a webhook refuses new objects"),
        pytest.param(REFUSED, NeedsAccessReview(message="b"), DryRunVerdict.UNKNOWN, id="no right to ask"),
        pytest.param(REFUSED, Unavailable(message="b"), DryRunVerdict.UNANSWERED, id="a webhook is away"),
        pytest.param(REFUSED, NamespaceTerminating(message="b"), DryRunVerdict.UNANSWERED, id="nothing new in this namespace"),
    ],
)  # fmt: skip
def test_a_refused_dry_run_judges_the_definition(
    refused: NeedsDryRun | MaybeImmutable, answer: ErrorClass, expected: DryRunVerdict
) -> None:
    assert api_errors.judge_definition(refused, answer) is expected


@pytest.mark.parametrize(
    ("refused", "verdict", "expected"),
    [
        pytest.param(ASKED, DryRunVerdict.INVALID, InvalidManifest(message="unknown field"), id="a mistake"),
        pytest.param(ASKED, DryRunVerdict.UNKNOWN, Unavailable(message="unknown field"), id="no answer to the question"),
        pytest.param(ASKED, DryRunVerdict.UNANSWERED, Unavailable(message="unknown field"), id="no answer at all"),
        pytest.param(REFUSED, DryRunVerdict.VALID, REFUSED, id="a fine definition: the change is what is refused"),
        pytest.param(REFUSED, DryRunVerdict.INVALID, InvalidManifest(message="immutable"), id="a new object has no immutable fields"),
        pytest.param(REFUSED, DryRunVerdict.UNKNOWN, dataclasses.replace(REFUSED, is_proven=False), id="an open question"),
        pytest.param(REFUSED, DryRunVerdict.UNANSWERED, Unavailable(message="immutable"), id="a question to ask again"),
    ],
)  # fmt: skip
def test_a_verdict_tells_what_was_meant(
    refused: NeedsDryRun | MaybeImmutable, verdict: DryRunVerdict, expected: ErrorClass
) -> None:
    assert api_errors.after_dry_run(refused, verdict) == expected


def test_an_accepted_dry_run_blames_the_live_object() -> None:
    change = api_errors.after_dry_run(ASKED, DryRunVerdict.VALID)
    assert isinstance(change, Denied)
    assert change.message.startswith("unknown field; a new object would be accepted")


def test_a_new_object_is_judged_by_the_apply_itself() -> None:
    assert api_errors.judge_repetition(ASKED) is DryRunVerdict.INVALID
    assert api_errors.judge_repetition(Unavailable(message="m")) is DryRunVerdict.UNANSWERED
    assert api_errors.judge_repetition(Denied(message="m")) is DryRunVerdict.UNANSWERED


def test_an_access_review_tells_a_full_quota_from_missing_rights() -> None:
    asked = NeedsAccessReview(message="m")
    assert api_errors.after_access_review(asked, kind=POD, is_allowed=True) == Unavailable(message="m")
    assert api_errors.after_access_review(asked, kind=POD, is_allowed=False) == Denied(message="m")


ROLE = Kind(group="rbac.authorization.k8s.io", version="v1", name="Role", plural="roles", namespaced=True)
ESCALATION = (
    'roles.rbac.authorization.k8s.io "reader" is forbidden: user "system:serviceaccount:shop-of-a-long-name:deployer" '
    '(groups=["system:serviceaccounts" "system:serviceaccounts:shop-of-a-long-name" "system:authenticated"]) is attempting '
    "to grant RBAC permissions not currently held:\n"
    + "\n".join(
        f'{{APIGroups:["apps"], Resources:["kind-{number}"], Verbs:["get" "list" "watch"]}}' for number in range(30)
    )
)


def test_a_role_beyond_the_rights_of_its_writer_is_named_as_such() -> None:
    body = status("Forbidden", ESCALATION, group=ROLE.group, kind="roles", name="reader")
    refused = api_errors.classify(403, body, kind=ROLE, body_size=1)
    assert isinstance(refused, NeedsAccessReview)
    found = api_errors.after_access_review(refused, kind=ROLE, is_allowed=True)
    assert isinstance(found, api_errors.BeyondRights)
    for part in ("shop-of-a-long-name:deployer", "not currently held", "kind-0", "escalate"):
        assert part in found.message
    assert len(found.message) < api_errors.LONGEST_MESSAGE
    ref = ObjectRef(group=ROLE.group, kind=ROLE.name, namespace="shop", name="reader")
    triggers = retry_triggers.find_triggers(refused, found, code=403, kind=ROLE, ref=ref)
    assert TriggerType.RIGHTS in {each.type for each in triggers}


def test_every_cause_is_reported_with_its_field() -> None:
    body = status(
        "Invalid", "long story", causes=[cause("spec.a"), cause("spec.b", message="Required value")], **OF_KIND
    )
    assert (
        error_texts.explain(422, body, ref=WEB)
        == "deployment/web: spec.a: Invalid value: 1: no; spec.b: Required value"
    )


def test_the_message_stands_where_a_cause_names_no_field() -> None:
    body = status("Invalid", "denied by policy 'p': no", causes=[{"message": "no"}], **OF_RESOURCE)
    assert error_texts.explain(422, body, ref=WEB) == "deployment/web: denied by policy 'p': no"


def test_a_cause_about_nothing_in_particular_stands_alone() -> None:
    body = status(
        "Invalid", causes=[cause("[]", "FieldValueTooLong", "Too long: may not be more than 9 bytes")], **OF_KIND
    )
    assert api_errors.describe(422, body, kind="ConfigMap") == "Too long: may not be more than 9 bytes"


def test_an_unserved_kind_is_reported_with_the_next_step() -> None:
    assert "is its CustomResourceDefinition installed?" in error_texts.explain(404, None, ref=WEB)
    assert error_texts.explain(502, None, ref=WEB) == "deployment/web: the server answered 502 without a message"


def test_a_long_echo_loses_its_middle_and_keeps_the_reason() -> None:
    echo = "Invalid value: " + "x" * 100_000 + ": field is immutable"
    reported = error_texts.explain(
        422, status("Invalid", causes=[cause("spec.template", message=echo)], **OF_KIND), ref=WEB
    )
    assert reported.startswith("deployment/web: spec.template: Invalid value: xxx")
    assert reported.endswith(": field is immutable")
    assert len(reported) < 600


def test_many_causes_are_counted() -> None:
    causes = [cause(f"spec.containers[{index}].image", message="Required value " + "y" * 60) for index in range(100)]
    reported = error_texts.explain(422, status("Invalid", causes=causes, **OF_KIND), ref=WEB)
    shown = reported.count("Required value")
    assert reported.endswith(f"; and {100 - shown} more")
    assert 5 < shown < 20
    assert len(reported) <= api_errors.LONGEST_MESSAGE


def test_a_long_name_does_not_break_the_bound() -> None:
    ref = ObjectRef(group="apps", kind="Deployment", namespace="shop", name="n" * 253)
    causes = [cause(f"spec.{'f' * 200}{index}", message="z" * 200) for index in range(9)]
    assert (
        len(error_texts.explain(422, status("Invalid", causes=causes, **OF_KIND), ref=ref))
        <= api_errors.LONGEST_MESSAGE
    )


@pytest.mark.parametrize(
    "message",
    [
        pytest.param('data.a: Invalid value: "hunter2": no', id="quoted"),
        pytest.param(r'data.a: Invalid value: "say \"hunter2\"": no', id="with quotes in it"),
        pytest.param(".stringData.a: expected string, got &value.valueUnstructured{Value:hunter2}", id="printed by Go"),
        pytest.param(".stringData: expected map, got &value.valueUnstructured{Value:map[a:hunter2]}", id="a printed map"),
        pytest.param(".stringData: expected map, got &value.valueUnstructured{Value:[map[a:{x} b:hunter2]]}", id="a printed nest"),
    ],
)  # fmt: skip
def test_values_of_a_secret_are_never_reported(message: str) -> None:
    assert "hunter2" not in error_texts.explain(500, status("", message), ref=PASSWORD)
    body = status("Invalid", causes=[cause("data.a", message=message)], name="password", kind="Secret")
    assert "hunter2" not in error_texts.explain(422, body, ref=PASSWORD)


def test_values_that_are_to_be_hidden_are_hidden_anywhere() -> None:
    body = status("Invalid", causes=[cause("spec.a", message='Invalid value: "line\\nhunter2 x": no')], **OF_KIND)
    reported = error_texts.explain(422, body, ref=WEB, hidden=["line\nhunter2", "no"])
    assert reported == 'deployment/web: spec.a: Invalid value: "… x": no'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('Invalid value: "SES": must be lower case', 'Invalid value: "…": must be lower case'),
        ("Invalid value: -47: must be at least 0", "Invalid value: …: must be at least 0"),
        ('Invalid value: {"a":47}: no', "Invalid value: …: no"),
        ('Unsupported value: "ses": supported values: "A", "B"', 'Unsupported value: "…": supported values: "…", "…"'),
        (
            "expected string, got &value.valueUnstructured{Value:47}",
            "expected string, got &value.valueUnstructured{Value:…",
        ),
    ],
)
def test_of_what_holds_a_sensitive_value_none_is_shown(message: str, expected: str) -> None:
    body = status("Invalid", causes=[cause("spec.a", message=message)], **OF_KIND)
    reaction = api_errors.classify(422, body, kind=DEPLOYMENT, body_size=0, hidden=frozenset({"sesame"}))
    assert reaction.message == f"spec.a: {expected}"
    assert api_errors.classify(422, body, kind=DEPLOYMENT, body_size=0).message == f"spec.a: {message}"


def test_a_value_within_another_uncovers_nothing() -> None:
    body = status("", "hunter23 and hunter")
    assert error_texts.explain(500, body, ref=WEB, hidden=["hunter", "hunter23"]) == "deployment/web: … and …"


@pytest.mark.parametrize(
    ("code", "body", "after", "expected"),
    [
        pytest.param(429, None, 1.0, True, id="the server's flow control: plain text"),
        pytest.param(429, None, None, True, id="regardless of what stands before it, without a word on when"),
        pytest.param(503, None, 5.0, True, id="a load balancer that says when"),
        pytest.param(503, None, None, False, id="is not served a group"),
        pytest.param(429, status("TooManyRequests", retryAfterSeconds=2), 2.0, False, id="a webhook's word"),
        pytest.param(429, status("TooManyRequests", causes=[{"reason": "DisruptionBudget"}]), 10.0, False, id="a disruption budget"),
        pytest.param(500, None, 1.0, False, id="something broke"),
    ],
)  # fmt: skip
def test_only_the_server_itself_turns_everybody_away(
    code: int, body: dict[str, Any] | None, after: float | None, *, expected: bool
) -> None:
    assert api_errors.is_throttled(code, body, after=after) is expected


def test_a_server_that_is_busy_is_reported_as_such() -> None:
    assert "too many requests" in classify(429, None).message
