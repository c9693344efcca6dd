"""A node that no longer reports."""

from __future__ import annotations

import signal

import pytest

from support.ecosystem import kinds
from support.node import reports
from support.node.node_cluster import NodeCluster, NodeUser
from support.node.pod_failures import NODE_GONE

pytestmark = pytest.mark.alone


def test_a_node_that_is_gone_is_named(node: NodeCluster, user: NodeUser) -> None:
    user.kubectl.apply([kinds.make_stack("gone", {"web": {"manifest": NODE_GONE.manifest}})])
    user.kubectl.wait("stack/gone", "condition=Ready")
    node.signal_program("kubelet", signal.SIGSTOP)
    try:
        reports.wait_for(user, "gone", NODE_GONE)
    finally:
        node.signal_program("kubelet", signal.SIGCONT)

    user.kubectl.wait("stack/gone", "condition=Ready")
