"""Writes and reads the stamp of a decision: who approved or rejected something, and when, signed with the operator's key.

The signature covers what was decided about: the purpose, and the namespace, name, UID and digest of the object. So a copy
of the stamp is not valid on another object, nor on one that was created again with the same name.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

import orjson

from hearth.model import limits, names, value_class
from hearth.model.signatures import Signatures, Signer
from hearth.model.text import times

PLAN = "approval"
"""The purpose of the signature of a decision about a StackPlan. It is not valid for any other purpose."""
GATE = "approval of a rollout gate"
"""The purpose of the signature of a decision about a gate in the rollout of a StackDefinition."""
_PREFIX = re.compile(rf"[0-9a-f]{{{names.PLAN_DIGITS},64}}")
_REQUEST = re.compile(r"(\S+)(?:\s+(.*))?", re.DOTALL)


class Decision(enum.StrEnum):
    """What a user decided."""

    APPROVED = "approved"
    REJECTED = "rejected"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSubject:
    """The object that a stamp is valid for."""

    namespace: str
    """The namespace; "" for an object without one."""
    name: str
    uid: str
    digest: str
    """The whole digest of the change, or of the gate."""
    purpose: str = PLAN
    """`PLAN` or `GATE`."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A decision of a user."""

    decision: Decision
    user: str
    """Name of the user, as the API server authenticated it."""
    time: str
    """RFC 3339, UTC, to the second."""
    reason: str = ""
    """Why, in the user's words."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """The value of the annotation with which a user decides: a prefix of the digest, and perhaps a reason."""

    digest: str
    reason: str = ""

    def matches_digest(self, digest: str) -> bool:
        """Return whether it gives enough digits of that digest, and the right ones."""
        return _PREFIX.fullmatch(self.digest) is not None and digest.startswith(self.digest)


def parse_request(text: str) -> DecisionRequest:
    """Parse the value of the annotation. Any text has a result; a long reason is cut."""
    found = _REQUEST.fullmatch(text[: limits.APPROVAL_LENGTH].strip())
    if found is None:
        return DecisionRequest(digest="")
    digest, reason = found.groups(default="")
    return DecisionRequest(digest=digest.lower(), reason=reason[: limits.APPROVAL_REASON])


def sign_approval(approval: Approval, subject: ApprovalSubject, *, signer: Signer) -> str:
    """Return the text of the annotation.

    Raises ValueError if the texts are too long for `read_approval`, or cannot be signed.
    """
    text = _write(approval, subject, signer.sign(subject.purpose, _describe(approval, subject)))
    if len(text) > limits.APPROVAL_LENGTH:
        raise ValueError(f"the approval has {len(text)} characters; at most {limits.APPROVAL_LENGTH} are possible")
    return text


def read_approval(text: object, subject: ApprovalSubject, *, signatures: Signatures) -> Approval | None:
    """Return the decision that the annotation proves for that subject, or None if it proves nothing. Never raises.

    Only the exact text of `sign_approval` counts: no key is ignored, and none occurs twice, so that every reader of the
    annotation sees the same user.
    """
    stamp = _parse(text)
    if stamp is None or _write(stamp.approval, subject, stamp.signature) != text:
        return None
    is_signed = signatures.is_signed(subject.purpose, _describe(stamp.approval, subject), stamp.signature)
    return stamp.approval if is_signed else None


def find_digest(text: str) -> str:
    """Return the digest that a stamp claims to be for, or "". Proves nothing, never raises."""
    try:
        return str(orjson.loads(text)["digest"])
    except (KeyError, TypeError, ValueError):
        return ""


def parse_claim(text: object) -> Approval | None:
    """Return the decision that the annotation claims, for display; None if there is none. Proves nothing, never raises."""
    stamp = _parse(text)
    return stamp.approval if stamp is not None else None


class _Stamp(NamedTuple):
    approval: Approval
    signature: str


def _parse(text: object) -> _Stamp | None:
    if not isinstance(text, str) or len(text) > limits.APPROVAL_LENGTH:
        return None
    try:
        fields = orjson.loads(text)
        if not all(isinstance(each, str) for each in fields.values()):
            return None
        times.parse_time(fields["time"])
        decision, user, time, signature = (fields[key] for key in ("decision", "user", "time", "signature"))
        approval = Approval(decision=Decision(decision), user=user, time=time, reason=fields.get("reason", ""))
    except (AttributeError, KeyError, ValueError):
        return None
    return _Stamp(approval, signature)


def _write(approval: Approval, subject: ApprovalSubject, signature: str) -> str:
    reason = {"reason": approval.reason} if approval.reason else {}
    fields = {
        "decision": str(approval.decision),
        "user": approval.user,
        "time": approval.time,
        **reason,
        "digest": subject.digest,
        "signature": signature,
    }
    return orjson.dumps(fields).decode()


def _describe(approval: Approval, subject: ApprovalSubject) -> list[str]:
    """Return the signed content."""
    whose = [subject.namespace, subject.name, subject.uid, subject.digest]
    return [*whose, str(approval.decision), approval.user, approval.time, approval.reason]
