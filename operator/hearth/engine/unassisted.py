"""The port `Evaluations` where there is no process for it: what may take long is not evaluated, and says so."""

from __future__ import annotations

from hearth.template.cel.evaluation import Alone


class Unassisted(Alone):
    """As the port says."""

    def begin(self, stack_uid: str) -> None:
        """Whoever asks gets the same."""

    async def wait(self, stack_uid: str) -> None:
        """Nothing is ever to come."""

    def forget(self, stack_uid: str) -> None:
        """Nothing is kept."""
