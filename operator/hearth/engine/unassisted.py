"""The port `Evaluations` without a helper process: slow expressions are reported as not evaluated."""

from __future__ import annotations

from hearth.template.cel.evaluation import Alone


class Unassisted(Alone):
    """The evaluator without a helper process."""

    def begin(self, stack_uid: str) -> None:
        """Ignore the Stack: every Stack gets the same answer."""

    async def wait(self, stack_uid: str) -> None:
        """Return at once: no evaluation is ever pending."""

    def forget(self, stack_uid: str) -> None:
        """Do nothing: no state is stored."""
