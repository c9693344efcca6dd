"""IDs of attempts: what the operator tried. A different ID means a different attempt, with its own count of failures."""

from __future__ import annotations

import enum
from typing import TypeAlias

from hearth.model import value_class


class SuspendPurpose(enum.StrEnum):
    """What to do with the fields that suspend an object."""

    SUSPEND = "suspend"
    RESUME = "resume"
    """The object has its definition, so suspending has no more effect."""
    RESTORE = "restore"
    """The definition cannot be applied now, so the object runs as before."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAttempt:
    """Apply of a definition to an object, or creation of an object."""

    hash: str
    """Keyed hash of the definition."""
    uid: str | None = None
    """UID of the object; None to create one."""
    may_adopt: bool = False
    inherited_rules: str = ""
    """Digest of the rules that the object inherits."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class RemovalAttempt:
    """Deletion or release of an object."""

    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DetachAttempt:
    """Deletion of a StatefulSet that leaves its Pods and claims for a definition."""

    hash: str
    """Keyed hash of the definition."""
    uid: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkAttempt:
    """Write of a health mark onto an object."""

    uid: str
    reason: str | None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class SuspendAttempt:
    """Suspend, resume or restore of an object."""

    uid: str
    purpose: SuspendPurpose


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class FailedObject:
    """An object of a definition that was applied and then failed permanently."""

    hash: str
    """Keyed hash of the definition."""


AttemptId: TypeAlias = ApplyAttempt | RemovalAttempt | DetachAttempt | MarkAttempt | SuspendAttempt | FailedObject
