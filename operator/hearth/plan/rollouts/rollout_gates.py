"""Reads which gates of a rollout passed. Evidence counts for one gate, after one wave, in one attempt of one revision.

A user approves a gate by its digest. Only the operator can compute a digest, and reports it when the wave is ready, so no
gate can be approved in advance. The webhook signs the approval.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hearth.model import approvals, limits, value_class
from hearth.model.approvals import Approval, ApprovalSubject, Decision
from hearth.plan.ownership.keyed_hash import HashFunction

DIGEST: Final = "digest of a rollout gate"
"""The purpose of the signature that is the digest of a gate."""


class GateState(enum.StrEnum):
    """State of a gate after a wave."""

    WAITING = "Waiting"
    PASSED = "Passed"
    FAILED = "Failed"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAttempt:
    """One attempt to roll out a revision. Evidence from another attempt does not count."""

    definition: str
    """Name of the StackDefinition."""
    uid: str
    """UID of the StackDefinition."""
    revision: int
    revision_hash: str
    """Hash of the content of the revision."""
    started: str
    """RFC 3339."""
    restart: str
    """The token of the restart that began it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """A gate after one wave, and the decision about it."""

    wave: str
    name: str
    digest: str
    """The text by which a user approves this gate after this wave."""
    state: GateState = GateState.WAITING
    approval: Approval | None = None


def find_results(
    gates: Sequence[str], waves: Sequence[str], attempt: RolloutAttempt, stamps: str, *, hashes: HashFunction
) -> tuple[GateResult, ...]:
    """Return the result of each gate after each wave. stamps: the annotation of the StackDefinition, as `join_stamps` wrote it."""
    claims: dict[str, list[str]] = {}
    for stamp in split_stamps(stamps) if gates else ():
        claims.setdefault(approvals.find_digest(stamp), []).append(stamp)
    return tuple(_find_result(wave, gate, attempt, claims, hashes=hashes) for wave in waves for gate in gates)


def _find_result(
    wave: str, gate: str, attempt: RolloutAttempt, claims: dict[str, list[str]], *, hashes: HashFunction
) -> GateResult:
    content = [
        *(attempt.definition, attempt.uid, attempt.revision, attempt.revision_hash, attempt.started, attempt.restart),
        *(wave, gate),
    ]
    digest = hashes.sign(DIGEST, content).rpartition(":")[2]
    subject = make_subject(attempt.definition, attempt.uid, digest)
    found = [
        approval
        for each in claims.get(digest, ())
        if (approval := approvals.read_approval(each, subject, signatures=hashes)) is not None
    ]
    # A rejection is final, even if an older stamp is restored.
    rejected = next((each for each in found if each.decision is Decision.REJECTED), None)
    approval = rejected or next(iter(found), None)
    state = GateState.FAILED if rejected else GateState.PASSED if approval else GateState.WAITING
    return GateResult(wave=wave, name=gate, digest=digest, state=state, approval=approval)


def make_subject(definition: str, uid: str, digest: str) -> ApprovalSubject:
    """Return what a stamp of a gate is valid for."""
    return ApprovalSubject(purpose=approvals.GATE, namespace="", name=definition, uid=uid, digest=digest)


def split_stamps(text: str) -> Iterator[str]:
    """Yield the stamps in the annotation of a StackDefinition; none if it is too long."""
    if len(text) <= limits.GATE_APPROVALS:
        yield from (each for each in text.split("\n") if each)


def join_stamps(stamps: Iterable[str]) -> str:
    """Return the annotation with these stamps. Raises ValueError if they are too long together."""
    text = "\n".join(stamps)
    if len(text) > limits.GATE_APPROVALS:
        raise ValueError(
            f"the approvals of the rollout have {len(text)} characters; at most {limits.GATE_APPROVALS} are possible"
        )
    return text
