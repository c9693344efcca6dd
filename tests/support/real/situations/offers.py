"""Commands that an explanation offers: found in its text, and what it means that one helps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

ARROW = "→ "
READING = re.compile(r"kubectl (get|describe|logs|auth can-i|api-resources|stack (history|check|why))\b")
NO = re.compile(r"kubectl (auth can-i|stack (check|why))")
"""Its answer may be no."""
PATTERNS = (
    "kubectl api-resources", "kubectl create role", "kubectl describe", "kubectl edit stack", "kubectl edit configmap", "kubectl get storageclasses",
    "kubectl get validatingwebhookconfigurations", "kubectl logs", "kubectl patch stack",
    "kubectl patch configmaps", "kubectl stack check", "kubectl stack continue", "kubectl stack history",
    "kubectl stack resume", "kubectl stack rollback", "kubectl stack unmark", "kubectl stack unpause", "kubectl stack why",
)  # fmt: skip
"""The commands that are brought about; the module that is tried elsewhere is named in `tests/unit/cli/test_offers.py`."""


def find_commands(text: str) -> Iterator[str]:
    """Yield the commands that an explanation offers, behind an arrow, each once."""
    yield from dict.fromkeys(line.partition(ARROW)[2].strip() for line in text.splitlines() if ARROW in line)


def reads(command: str) -> bool:
    """Whether the command changes nothing."""
    return READING.match(command) is not None


def is_answered(command: str, code: int, output: str) -> bool:
    """Whether the command did what it says: one that reads shows something, unless its answer is no."""
    if NO.match(command):
        return code in (0, 1) and bool(output.strip())
    if command.startswith(("kubectl get storageclasses", "kubectl api-resources", "kubectl logs")):
        # That there is none is the answer; a kubelet that keeps logs is missing here.
        return code == 0 or command.startswith("kubectl logs")
    return code == 0 and bool(output.strip())


def find_untried(tried: Collection[str]) -> list[str]:
    """The commands that should have been offered, and were not."""
    return [each for each in PATTERNS if not any(command.startswith(each) for command in tried)]
