"""Compares the reports about a Stack, its phase, reason and explanation, with the expected ones."""

from __future__ import annotations

import re
import threading

from support.node import node_cluster
from support.node.node_cluster import NodeUser
from support.node.pod_failures import PodFailure

ASKING = threading.Semaphore(2)
"""Limits concurrent explanations, because the Pods need CPU as well."""


def find_missing(text: str, failure: PodFailure) -> list[str]:
    """The expected lines that the text lacks, or all lines if there should be none."""
    head, *lines = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines())
    wanted = [*failure.why, *([f"→ {failure.advice}"] if failure.advice else [])]
    missing = [each for each in wanted if not any(is_in(each, line) for line in lines)]
    surplus = lines if not failure.why else []
    return [*missing, *surplus, *([] if head == f"{failure.phase} {failure.reason}" else [head])]


def is_in(pattern: str, line: str) -> bool:
    """Whether a line contains the pattern. Only `*` is special in a pattern."""
    return re.search(".*".join(map(re.escape, pattern.split("*"))), line) is not None


def wait_for(user: NodeUser, name: str, failure: PodFailure) -> str:
    """Wait until the reports about a Stack are as expected; return them."""
    shown = [""]

    def is_explained() -> bool:
        with ASKING:
            shown[0] = user.explain(name)
        return find_missing(shown[0], failure) == []

    node_cluster.wait_until(name, is_explained, lambda: f"{find_missing(shown[0], failure)} in\n{shown[0]}")
    return shown[0]
