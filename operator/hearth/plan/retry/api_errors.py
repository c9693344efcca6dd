"""Classifies error responses of the API server and describes them for users.

The class depends on code, reason and causes, never on the message text.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from hearth.model import object_fields, value_class
from hearth.model.kinds import Kind
from hearth.model.text import redaction

Status: TypeAlias = Mapping[str, Any]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InvalidManifest:
    """An error in the definition: no retry helps until the user changes it."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A denial by a policy, a webhook or missing rights: an admin or the user must act. Retry slowly."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class BeyondRights:
    """An RBAC object that its writer may write, but not with these rules: they grant rights that the writer lacks."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A temporary failure of the API server or of a component behind it."""

    message: str
    after: float | None = None
    """Seconds that the API server asks to wait."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class StaleRead:
    """A write based on stale data: another version or incarnation exists, or an object that was assumed absent."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNotFound:
    """A response that the object does not exist."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApplyConflict:
    """A conflict with other field managers that own these fields."""

    message: str
    fields: tuple[str, ...] = ()
    """As the API server writes them, without the leading dot."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NeedsDryRun:
    """An ambiguous error that a dry-run create of the same manifest resolves (see `after_dry_run`)."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NeedsAccessReview:
    """Missing rights or an exceeded limit; an access review shows which (see `after_access_review`)."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MaybeImmutable:
    """An invalid value or an immutable field.

    If the definition changed, a dry-run create of the same manifest shows which.
    """

    message: str
    fields: tuple[str, ...]
    """The rejected fields, as the API server writes them."""
    is_proven: bool = True
    """Whether it is proven that a new object of the definition would be accepted."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceNotFound:
    """A namespace that does not exist (yet)."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTerminating:
    """A namespace that is being deleted and accepts no new objects."""

    message: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KindNotServed:
    """A kind that the API server does not serve (yet, or any longer): repeat discovery."""

    message: str


ErrorClass: TypeAlias = (
    InvalidManifest
    | Denied
    | Unavailable
    | BeyondRights
    | StaleRead
    | ObjectNotFound
    | ApplyConflict
    | NeedsDryRun
    | NeedsAccessReview
    | MaybeImmutable
    | NamespaceNotFound
    | NamespaceTerminating
    | KindNotServed
)


class DryRunVerdict(enum.Enum):
    """The conclusion about a definition from the dry-run create of its manifest. A closed set.

    Only the operator requests this dry run, so no message shows its answer.
    """

    VALID = "valid"
    """A new object of this definition would be accepted."""
    INVALID = "invalid"
    """The definition itself is wrong."""
    UNKNOWN = "unknown"
    """The answer concerns the attempt: a port that the object itself holds, a full quota, a policy."""
    UNANSWERED = "unanswered"
    """The dry run gave no answer. Repeat it."""


FIELD_CONFLICT = "FieldManagerConflict"
TERMINATING = "NamespaceTerminating"
NEVER_IMMUTABLE = frozenset({"FieldValueTooLong", "FieldValueTooMany", "FieldValueNotSupported"})
"""Reasons of causes that would fail a new object too. Validation rules of custom kinds may use any other reason."""
STATE_FIELDS = frozenset(
    {
        ("metadata.uid", "FieldValueInvalid"),
        ("metadata.resourceVersion", "FieldValueInvalid"),
        ("metadata.finalizers", "FieldValueForbidden"),
    }
)
"""Errors caused by the state of the object, not by the definition: another incarnation, or a pending deletion."""
STORED_LIMIT = 1_400_000
"""Bytes of a manifest from which a 500 without a reason means "too large for etcd".

etcd accepts 1.5 MiB, and the stored object is larger than the manifest. At worst, this misclassifies a 500 of another
cause, whose message is still the API server's own.
"""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """An error response with a `Status`, and the kind and size of the request."""

    code: int
    status: Status
    message: str
    kind: Kind
    body_size: int


def classify(
    code: int, status: Status | None, *, kind: Kind, body_size: int, hidden: Collection[str] | None = None
) -> ErrorClass:
    """Classify a response other than 2xx.

    status: the body if it is a `Status`, otherwise None; kind: of the written object; body_size: bytes of the sent
    manifest; hidden: texts that must not be shown, None if nothing in the manifest is sensitive.
    """
    message = describe(code, status, kind=kind.name, hidden=hidden or (), is_guarded=hidden is not None)
    if status is None:
        return KindNotServed(message=message) if code == 404 else Unavailable(message=message)
    answer = ErrorResponse(code=code, status=status, message=message, kind=kind, body_size=body_size)
    return RULES.get(code, classify_other)(answer)


def judge_definition(refused: NeedsDryRun | MaybeImmutable, answer: ErrorClass) -> DryRunVerdict:
    """Judge a definition by its rejected dry-run create.

    refused: the answer to the change itself. If it names fields, only the same fields count, because a new object can
    be rejected for reasons that do not apply to an existing one.
    """
    match answer, refused:
        case MaybeImmutable(), MaybeImmutable():
            return DryRunVerdict.INVALID if set(answer.fields) & set(refused.fields) else DryRunVerdict.UNKNOWN
        case (MaybeImmutable(), NeedsDryRun()) | (InvalidManifest(), NeedsDryRun()):
            return DryRunVerdict.INVALID
        case ((InvalidManifest() | Denied() | MaybeImmutable() | NeedsAccessReview() | ApplyConflict()), _):
            return DryRunVerdict.UNKNOWN
        case _:
            return DryRunVerdict.UNANSWERED


def judge_repetition(answer: ErrorClass) -> DryRunVerdict:
    """Judge a definition that is valid for a new object by the rejected dry run of the apply itself."""
    return (
        DryRunVerdict.INVALID
        if isinstance(answer, NeedsDryRun | MaybeImmutable | InvalidManifest)
        else DryRunVerdict.UNANSWERED
    )


def after_dry_run(refused: NeedsDryRun | MaybeImmutable, verdict: DryRunVerdict) -> ErrorClass:
    """Resolve `refused` by the verdict on the definition; its message is kept.

    If the definition is valid, `MaybeImmutable` stays: the API server rejected the change.
    """
    match refused, verdict:
        case _, DryRunVerdict.INVALID:
            return InvalidManifest(message=refused.message)
        case _, DryRunVerdict.UNANSWERED:
            return Unavailable(message=refused.message)
        case MaybeImmutable(), _:
            return dataclasses.replace(refused, is_proven=verdict is DryRunVerdict.VALID)
        case NeedsDryRun(), DryRunVerdict.VALID:
            cause = "a new object would be accepted, so fields that other clients added cause this"
            return Denied(message=f"{refused.message}; {cause}")
        case _:
            return Unavailable(message=refused.message)


def after_access_review(needed_review: NeedsAccessReview, *, kind: Kind, is_allowed: bool) -> ErrorClass:
    """Resolve `needed_review` by whether RBAC allows the operator that request. kind: of the written object."""
    message = needed_review.message
    if not is_allowed:
        return Denied(message=message)
    if kind.group != RBAC_GROUP:
        return Unavailable(message=message)
    # An exceeded quota is rejected in the same way, but the message mentions the quota.
    return BeyondRights(message=f"{message}{WAYS_TO_GRANT}" if ESCALATES in message else message)


def classify_bad_request(response: ErrorResponse) -> ErrorClass:
    """Classify a 400: an unreadable body, or, without a reason, a denial by a webhook."""
    return (
        InvalidManifest(message=response.message) if response.status.get("reason") else Denied(message=response.message)
    )


def classify_forbidden(response: ErrorResponse) -> ErrorClass:
    """Classify a 403: a terminating namespace, a policy, missing rights or a quota."""
    causes = read_causes(response.status)
    if any(cause.get("reason") == TERMINATING for cause in causes):
        return NamespaceTerminating(message=response.message)
    return Denied(message=response.message) if causes else NeedsAccessReview(message=response.message)


def classify_missing(response: ErrorResponse) -> ErrorClass:
    """Classify a 404: the namespace, the object or the kind."""
    details = read_details(response.status)
    if details.get("kind") == "namespaces" and response.kind.key != "Namespace":
        return NamespaceNotFound(message=response.message)
    return ObjectNotFound(message=response.message) if details.get("name") else KindNotServed(message=response.message)


def classify_conflict(response: ErrorResponse) -> ErrorClass:
    """Classify a 409: fields of other managers or a stale read; otherwise a webhook chose the code."""
    conflicts = [cause for cause in read_causes(response.status) if cause.get("reason") == FIELD_CONFLICT]
    if conflicts:
        return ApplyConflict(message=response.message, fields=read_fields(conflicts))
    if read_details(response.status).get("name"):
        return StaleRead(message=response.message)
    return Denied(message=response.message)


def classify_invalid(response: ErrorResponse) -> ErrorClass:
    """Classify a 422: validation of the kind, which names field and reason in every cause; otherwise a policy."""
    causes = read_causes(response.status)
    is_validation = bool(causes) and all(cause.get("field") and cause.get("reason") for cause in causes)
    if not is_validation or read_details(response.status).get("kind") != response.kind.name:
        return Denied(message=response.message)
    if any((cause["field"], cause["reason"]) in STATE_FIELDS for cause in causes):
        return StaleRead(message=response.message)
    if any(cause["reason"] in NEVER_IMMUTABLE or str(cause["field"]).startswith("metadata.") for cause in causes):
        return InvalidManifest(message=response.message)
    return MaybeImmutable(message=response.message, fields=read_fields(causes))


def classify_broken(response: ErrorResponse) -> ErrorClass:
    """Classify a 500: with a reason, a failed backend; without one, any cause, including errors of users."""
    if response.status.get("reason"):
        return classify_other(response)
    if response.body_size >= STORED_LIMIT:
        return InvalidManifest(message=response.message)
    return NeedsDryRun(message=response.message)


def classify_unusable(response: ErrorResponse) -> ErrorClass:
    """Classify a request that is too large, or a kind whose API server does not support apply."""
    return InvalidManifest(message=response.message)


def classify_expired(response: ErrorResponse) -> ErrorClass:
    """Classify a 410: the requested resource version has expired."""
    return StaleRead(message=response.message)


def classify_other(response: ErrorResponse) -> ErrorClass:
    """Classify all other errors as temporary: overload, timeouts, rotation of credentials."""
    return Unavailable(message=response.message, after=read_delay(response.status))


def is_throttled(code: int, status: Status | None, *, after: float | None) -> bool:
    """Return whether the API server throttles requests regardless of their content.

    after: seconds that it asks to wait. Flow control and proxies answer without a `Status`. A `Status` comes from a
    component that read the request: a webhook, a disruption budget, a storage backend that is starting.
    """
    return status is None and (code == 429 or (code == 503 and after is not None))


RULES: Mapping[int, Callable[[ErrorResponse], ErrorClass]] = {
    400: classify_bad_request,
    403: classify_forbidden,
    404: classify_missing,
    405: classify_unusable,
    406: classify_unusable,
    409: classify_conflict,
    410: classify_expired,
    413: classify_unusable,
    415: classify_unusable,
    422: classify_invalid,
    500: classify_broken,
}
"""By HTTP code; `classify_other` handles all others."""


def read_fields(causes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the fields that causes name, each once."""
    return tuple(dict.fromkeys(str(cause.get("field", "")).lstrip(".") for cause in causes))


def read_delay(status: Status) -> float | None:
    """Return the seconds that the API server asks to wait, if any."""
    seconds = read_details(status).get("retryAfterSeconds")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


# Messages for error responses: the API server's text with every cause, shortened and redacted. Only messages depend on
# this text, never the class of an error.

LONGEST_MESSAGE = 1024
"""Characters: the limit that Kubernetes recommends for a condition's message and allows for an Event's note."""
LONGEST_CAUSE = 240
"""Characters. The API server may repeat a rejected value twice in full, in 200 KB."""
HEAD = 90
"""Characters to retain at the start of a long cause: the field and the start of the value. Its end holds the reason."""
GAP = redaction.ELLIPSIS
RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_KINDS = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})
ESCALATES = "attempting to grant RBAC permissions not currently held"
WAYS_TO_GRANT = (
    "; give that user these rights itself, or the verb `escalate` for roles and `bind` for bindings, or ask an "
    "administrator to create the object"
)
USER_GROUPS = re.compile(r" \(groups=\[[^\]]*\]\)")
"""The groups of a user in the rejection of an RBAC object. They are longer than the reason that follows them."""
GUARDED_KIND = "Secret"
TOO_MANY = 429
QUOTED = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*(?:"|\Z)', re.DOTALL)
"""A match without a closing quote extends to the end of the text, for linear time."""
LONGEST_GUARDED = 16_384
"""Limit in characters for the search for unquoted values, which takes quadratic time."""
GO_VALUE = re.compile(r"\bValue:.*", re.DOTALL)
"""Format of a value that the API server cannot convert: `got &value.valueUnstructured{Value:123}`.

The value may contain any bracket, so redaction removes everything after `Value:`.
"""
BARE_VALUE = re.compile(
    r"(\b(?:Invalid|Unsupported|Duplicate) value: )(?:\{.*\}|\[.*\]|map\[.*\]|[^\s\":]+)", re.DOTALL
)
"""Format of a value that is not a string: `Invalid value: -1: must be …`."""


def describe(
    code: int, status: Mapping[str, Any] | None, *, kind: str, hidden: Collection[str] = (), is_guarded: bool = False
) -> str:
    """Describe an error without the name of the object. kind: of the object; the values of a Secret are never shown.

    is_guarded: whether to redact the values of other kinds too, because some of them are sensitive.
    """
    is_guarded = is_guarded or kind == GUARDED_KIND
    if code == 404 and not read_details(status or {}).get("kind"):
        return f"the server does not serve the kind {kind}; is its CustomResourceDefinition installed?"
    if status is None and code == TOO_MANY:
        return "the API server is throttling requests (too many requests)"
    if status is None:
        return f"the server answered {code} without a message"
    causes = [cause for cause in read_causes(status) if cause.get("message")]
    # The message repeats the causes after the object's name. It has more details if a cause names no field.
    texts = [describe_cause(cause) for cause in causes if cause.get("field")] if causes else []
    if len(texts) < len(causes) or not texts:
        texts = [str(status.get("message") or f"the server answered {code} without a message")]
    shown = [hide(text, hidden=hidden, is_guarded=is_guarded) for text in texts]
    if kind in RBAC_KINDS and any(ESCALATES in text for text in shown):
        # The message may end with many rules, and the reason precedes them.
        return cut(USER_GROUPS.sub("", shown[0]), length=LONGEST_CAUSE * 2)
    return join_causes(shown)


def describe_cause(cause: Mapping[str, Any]) -> str:
    """Describe a cause: `spec.replicas: Invalid value: -1: …`. A cause without a field has no prefix."""
    field = str(cause["field"]).lstrip(".")
    return str(cause["message"]) if field in {"<nil>", "[]"} else f"{field}: {cause['message']}"


def join_causes(texts: Sequence[str]) -> str:
    """Join as many of the texts as fit, each once, and add the number of the remaining texts."""
    unique = list(dict.fromkeys(shorten(text, length=LONGEST_CAUSE) for text in texts))
    if len(unique) == 1:
        return shorten(texts[0], length=LONGEST_CAUSE * 2)
    shown: list[str] = []
    for text in unique:
        # Leave room for the object's name before and the count after.
        if shown and sum(map(len, shown)) + len(text) > LONGEST_MESSAGE - LONGEST_CAUSE:
            return f"{'; '.join(shown)}; and {len(unique) - len(shown)} more"
        shown.append(text)
    return "; ".join(shown)


def shorten(text: str, *, length: int) -> str:
    """Remove the middle of `text` if it is longer than `length`. Its end names the error."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return f"{text[:HEAD]} {GAP} {text[len(text) - (length - HEAD - 3) :]}"


def cut(text: str, *, length: int) -> str:
    """Remove the end of `text` if it is longer than `length`."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 2]} {GAP}"


def hide(text: str, *, hidden: Collection[str], is_guarded: bool) -> str:
    """Redact the `hidden` texts, and every value of a guarded object."""
    text = redaction.redact(text, hidden)
    if is_guarded:
        # Only its position identifies a transformed or shortened copy of a value.
        text = GO_VALUE.sub(f"Value:{GAP}", QUOTED.sub(f'"{GAP}"', text))
        if len(text) > LONGEST_GUARDED:
            return f"the reason has {len(text)} characters and may contain sensitive values, so it is not shown"
        text = BARE_VALUE.sub(rf"\g<1>{GAP}", text)
    return text


def read_details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details of a `Status`; empty without them."""
    return object_fields.mapping(status, "details")


def read_causes(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the causes of a `Status`; empty without them."""
    causes = read_details(status).get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
