"""What a refusal of the API server asks for, and how it is told.

Decides by codes, reasons and causes, never by a text. Must not know who asked, nor what was tried before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hearth.model.kinds import Kind
from hearth.plan.retry import error_message

Status: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidManifest:
    """The definition is at fault: no retry helps until its author changed it."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A policy, a webhook or missing rights: an admin (or the author) acts. Try again slowly, nothing tells when."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Something behind the server is not up to it now."""

    message: str
    after: float | None = None
    """Seconds that the server asked to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRead:
    """The object is not what we took it for: another version, another incarnation, there though we thought it was not."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNotFound:
    """There is no such object."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyConflict:
    """Others own these fields."""

    message: str
    fields: tuple[str, ...] = ()
    """As the server writes them, without the leading dot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsDryRun:
    """The server does not say; a strict dry-run create of the same manifest does (see `after_dry_run`)."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsAccessReview:
    """Missing rights, or something full; an access review tells which (see `after_access_review`)."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MaybeImmutable:
    """A value is wrong, or may not change; if the definition changed, a strict dry-run create under another name tells."""

    message: str
    fields: tuple[str, ...]
    """The refused fields, as the server writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceNotFound:
    """The namespace is not there (yet)."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTerminating:
    """Nothing new can be made in a namespace on its way out."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindNotServed:
    """The server does not serve that kind (yet, or any longer): ask it once more what it serves."""

    message: str


ErrorClass: TypeAlias = (
    InvalidManifest
    | Denied
    | Unavailable
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

FIELD_CONFLICT = "FieldManagerConflict"
TERMINATING = "NamespaceTerminating"
NEVER_IMMUTABLE = frozenset({"FieldValueTooLong", "FieldValueTooMany", "FieldValueNotSupported"})
"""Reasons of causes that no new object would escape. Rules of custom kinds may choose any of the others."""
STATE_FIELDS = frozenset(
    {
        ("metadata.uid", "FieldValueInvalid"),
        ("metadata.resourceVersion", "FieldValueInvalid"),
        ("metadata.finalizers", "FieldValueForbidden"),
    }
)
"""Refused not for what the definition says but for what the object is: another incarnation, or on its way out."""
STORED_LIMIT = 1_400_000
"""Bytes of a manifest from which a 500 without a reason means "too large to be stored": the store takes 1.5 MiB, and
what it is given holds more than we sent. At worst a 500 of another cause is told in the server's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """A refusal with a `Status`, and what it was given for."""

    code: int
    status: Status
    message: str
    kind: Kind
    body_size: int


def classify(
    code: int, status: Status | None, *, kind: Kind, body_size: int, hidden: Collection[str] | None = None
) -> ErrorClass:
    """The reaction that an answer other than 2xx needs.

    status: the body where it is a `Status`, else None; kind: of the object that was written;
    body_size: bytes of the manifest as it was sent; hidden: texts that must not be shown, None where nothing in the
    manifest is sensitive.
    """
    message = error_message.describe(code, status, kind=kind.name, hidden=hidden or (), is_guarded=hidden is not None)
    if status is None:
        return KindNotServed(message=message) if code == 404 else Unavailable(message=message)
    answer = ErrorResponse(code=code, status=status, message=message, kind=kind, body_size=body_size)
    return RULES.get(code, classify_other)(answer)


def after_dry_run(refused: NeedsDryRun | MaybeImmutable, verdict: ErrorClass | None) -> ErrorClass:
    """What `refused` meant, given what a dry-run create of the same manifest was answered (None: accepted).

    An accepted one leaves `MaybeImmutable` as it is: then the change is what was refused.
    """
    match verdict:
        case None if isinstance(refused, NeedsDryRun):
            return Denied(
                message=f"{refused.message}; a new object would be accepted, so what others added is in the way"
            )
        case InvalidManifest() | Denied():
            return verdict
        case MaybeImmutable():
            # Nothing is there that could be immutable: the definition itself is wrong.
            return InvalidManifest(message=verdict.message)
        case NeedsDryRun():
            return Unavailable(message=refused.message)
        case _:
            return refused if isinstance(refused, MaybeImmutable) else Unavailable(message=refused.message)


def after_access_review(refused: NeedsAccessReview, *, is_allowed: bool) -> ErrorClass:
    """What `refused` meant, given whether the account may do what was refused."""
    return Unavailable(message=refused.message) if is_allowed else Denied(message=refused.message)


def classify_bad_request(answer: ErrorResponse) -> ErrorClass:
    """A body that cannot be read; without a reason it is a webhook's word."""
    return InvalidManifest(message=answer.message) if answer.status.get("reason") else Denied(message=answer.message)


def classify_forbidden(answer: ErrorResponse) -> ErrorClass:
    """By a namespace on its way out, a policy, missing rights or a quota."""
    causes = error_message.read_causes(answer.status)
    if any(cause.get("reason") == TERMINATING for cause in causes):
        return NamespaceTerminating(message=answer.message)
    return Denied(message=answer.message) if causes else NeedsAccessReview(message=answer.message)


def classify_missing(answer: ErrorResponse) -> ErrorClass:
    """The namespace, the object or the kind."""
    details = error_message.read_details(answer.status)
    if details.get("kind") == "namespaces" and answer.kind.key != "Namespace":
        return NamespaceNotFound(message=answer.message)
    return ObjectNotFound(message=answer.message) if details.get("name") else KindNotServed(message=answer.message)


def classify_conflict(answer: ErrorResponse) -> ErrorClass:
    """Fields of others, or an object that is not what we took it for; else a webhook chose the code."""
    conflicts = [cause for cause in error_message.read_causes(answer.status) if cause.get("reason") == FIELD_CONFLICT]
    if conflicts:
        return ApplyConflict(message=answer.message, fields=read_fields(conflicts))
    if error_message.read_details(answer.status).get("name"):
        return StaleRead(message=answer.message)
    return Denied(message=answer.message)


def classify_invalid(answer: ErrorResponse) -> ErrorClass:
    """By the kind's own validation, which names a field and a reason in every cause; else by a policy."""
    causes = error_message.read_causes(answer.status)
    is_validation = bool(causes) and all(cause.get("field") and cause.get("reason") for cause in causes)
    if not is_validation or error_message.read_details(answer.status).get("kind") != answer.kind.name:
        return Denied(message=answer.message)
    if any((cause["field"], cause["reason"]) in STATE_FIELDS for cause in causes):
        return StaleRead(message=answer.message)
    if any(cause["reason"] in NEVER_IMMUTABLE or str(cause["field"]).startswith("metadata.") for cause in causes):
        return InvalidManifest(message=answer.message)
    return MaybeImmutable(message=answer.message, fields=read_fields(causes))


def classify_broken(answer: ErrorResponse) -> ErrorClass:
    """With a reason something behind the server failed; without one it may be anything, mistakes of users among it."""
    if answer.status.get("reason"):
        return classify_other(answer)
    if answer.body_size >= STORED_LIMIT:
        return InvalidManifest(message=answer.message)
    return NeedsDryRun(message=answer.message)


def classify_unusable(answer: ErrorResponse) -> ErrorClass:
    """Too large to be read, or of a kind whose server knows no apply."""
    return InvalidManifest(message=answer.message)


def classify_expired(answer: ErrorResponse) -> ErrorClass:
    """A version of long ago was asked for."""
    return StaleRead(message=answer.message)


def classify_other(answer: ErrorResponse) -> ErrorClass:
    """Anything that is nobody's fault: overload, timeouts, credentials that are being rotated."""
    return Unavailable(message=answer.message, after=read_delay(answer.status))


def is_throttled(code: int, status: Status | None, *, after: float | None) -> bool:
    """Whether the server turns requests away as such, for its own sake: nothing of the kind would fare better now.

    after: seconds that it asked to wait. Its own flow control, and what stands before it, answers without a `Status`; one
    is the word of whoever looked at the request: a webhook, a disruption budget, a store that is being set up.
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
"""By HTTP code; all others ask for patience."""


def read_fields(causes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields that causes name, each once."""
    return tuple(dict.fromkeys(str(cause.get("field", "")).lstrip(".") for cause in causes))


def read_delay(status: Status) -> float | None:
    """The seconds that the server asks to wait, if it does."""
    seconds = error_message.read_details(status).get("retryAfterSeconds")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None
