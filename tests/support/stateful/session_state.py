"""The memory of a session between two steps: the user's target, and the events since the Stack was last at rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hearth.model.child import Object
from support.checks import members
from support.stateful import random_templates
from support.stateful.fake_adversary import FakeAdversary
from support.stateful.random_templates import Drafts


@dataclass(slots=True)
class Since:
    """The events since the Stack was at rest."""

    edits: int = 0
    others: int = 0
    """Everything else that can cause a write."""
    faults: int = 0
    is_clean: bool = False
    """Whether the world was completely at rest."""
    requests: int = 0
    """Number of requests until then."""
    events: int = 0
    """Number of Events until then."""
    is_retried: bool = False
    is_harassed: bool = False
    """Whether an adversary undid writes, so that any action may have failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harassed:
    """An active adversary."""

    adversary: FakeAdversary
    deed: str
    begun: float
    """Start time in virtual seconds."""
    requests: int
    """Number of requests at the start."""
    changes: int
    """Number of changes until then that restart the count of writes."""


@dataclass(slots=True)
class Ordered:
    """The user's latest target."""

    drafts: Drafts
    rollback: dict[str, Any] = field(default_factory=dict)
    is_paused: bool = False
    mistake: str = ""

    def make_spec(self) -> Object:
        """Return the target as a Stack's spec."""
        template = random_templates.make_template(self.drafts)
        if self.mistake:
            template["resources"][members.MISTAKEN] = {
                "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": self.mistake}}
            }
        spec: Object = {"template": template}
        if self.rollback:
            spec["rollback"] = dict(self.rollback)
        if self.is_paused:
            spec["paused"] = True
        return spec
