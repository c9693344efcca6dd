"""The reasons of the condition `Ready` of a StackDefinition, and which of them deserve an Event."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class DefinitionReason(enum.StrEnum):
    """Why a StackDefinition is ready, or not."""

    COMPLETE = "Complete"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_STOPPED = "RolloutStopped"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    INVALID_DEFINITION = "InvalidDefinition"
    SOURCE_NOT_FOUND = "SourceNotFound"
    INSTANCES_DO_NOT_FIT = "InstancesDoNotFit"
    REVISION_TAMPERED = "RevisionTampered"
    KIND_TAKEN = "KindTaken"
    KIND_NOT_SERVED = "KindNotServed"
    ROLES_REFUSED = "RolesRefused"
    DELETION_BLOCKED = "DeletionBlocked"


NORMAL: Final = "Normal"
WARNING: Final = "Warning"
EVENT_TYPES: Final[Mapping[DefinitionReason, str]] = {
    DefinitionReason.COMPLETE: NORMAL,
    DefinitionReason.ROLLING_OUT: NORMAL,
    DefinitionReason.ROLLOUT_PAUSED: NORMAL,
    DefinitionReason.ROLLOUT_STOPPED: WARNING,
    DefinitionReason.ROLLING_BACK: WARNING,
    DefinitionReason.ROLLED_BACK: WARNING,
    DefinitionReason.INVALID_DEFINITION: WARNING,
    DefinitionReason.SOURCE_NOT_FOUND: WARNING,
    DefinitionReason.INSTANCES_DO_NOT_FIT: WARNING,
    DefinitionReason.REVISION_TAMPERED: WARNING,
    DefinitionReason.KIND_TAKEN: WARNING,
    DefinitionReason.ROLES_REFUSED: WARNING,
    DefinitionReason.DELETION_BLOCKED: WARNING,
}
"""The type of the Event that is posted once a reason comes; those without one pass by themselves within a second."""
