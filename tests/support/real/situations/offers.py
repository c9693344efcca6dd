"""Finds suggested commands in the text of an explanation, and decides whether they helped."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

ARROW = "→ "
READING = re.compile(r"kubectl (get|describe|logs|auth can-i|api-resources|stack (history|check|why))\b")
NO = re.compile(r"kubectl (auth can-i|stack (check|why))")
"""Commands that may answer "no" or report a problem."""
PATTERNS = (
    "kubectl api-resources", "kubectl create role", "kubectl describe", "kubectl edit stack", "kubectl edit configmap", "kubectl get storageclasses",
    "kubectl get validatingwebhookconfigurations", "kubectl logs", "kubectl patch stack",
    "kubectl patch configmaps", "kubectl stack check", "kubectl stack continue", "kubectl stack history",
    "kubectl stack resume", "kubectl stack rollback", "kubectl stack unmark", "kubectl stack unpause", "kubectl stack why",
)  # fmt: skip
"""The commands that are tried here. Commands tried elsewhere are listed in `tests/unit/cli/test_offers.py`."""


def find_commands(text: str) -> Iterator[str]:
    """Yield the commands that an explanation suggests after an arrow, each once."""
    yield from dict.fromkeys(line.partition(ARROW)[2].strip() for line in text.splitlines() if ARROW in line)


def reads(command: str) -> bool:
    """Whether the command changes nothing."""
    return READING.match(command) is not None


def is_answered(command: str, code: int, output: str) -> bool:
    """Whether the command worked: a reading command prints something, unless an empty result is its answer."""
    if NO.match(command):
        return code in (0, 1) and bool(output.strip())
    if command.startswith(("kubectl get storageclasses", "kubectl api-resources", "kubectl logs")):
        # An empty result is a valid answer. No kubelet keeps logs here.
        return code == 0 or command.startswith("kubectl logs")
    return code == 0 and bool(output.strip())


def find_untried(tried: Collection[str]) -> list[str]:
    """The commands that should have been suggested but were not."""
    return [each for each in PATTERNS if not any(command.startswith(each) for command in tried)]
