"""Measures of one other cluster for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hearth.kube.remote.remote_cluster import KubeRemoteCluster

NAMES: Final = ("reachable", "stacks", "cached_objects", "cached_bytes", "requests", "failed_requests")


def measure(remote: KubeRemoteCluster, *, users: int) -> Mapping[str, float]:
    """Return the numbers of one cluster by name. users: number of its Stacks."""
    caches, usage = remote.cluster.caches, remote.usage
    return {
        "reachable": float(usage.is_reachable),
        "stacks": float(users),
        "cached_objects": float(sum(each.objects for each in caches.health())),
        "cached_bytes": sum(caches.count_bytes().values()),
        "requests": float(usage.requests),
        "failed_requests": float(usage.failures),
    }
