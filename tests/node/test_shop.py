"""The unmodified three-tier example with a real database and a page, as `make run NODE=1` shows it."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import binaries
import node_shop
import pytest

from support import repository
from support.node import node_cluster
from support.node.node_cluster import NodeCluster, NodeUser

EXAMPLE = repository.EXAMPLES / "three-tier.yaml"


@pytest.fixture
def page(node: NodeCluster, user: NodeUser) -> int:
    """The port of the example's page. The user's namespace has all required objects."""
    node_shop.prepare(binaries.ensure() / "kubectl", node.home, namespace=user.namespace)
    return node_shop.open_page(node.home)


def read(page: int) -> str:
    """The page, or "" if it is unavailable."""
    with (
        contextlib.suppress(urllib.error.URLError, OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{page}/", timeout=3) as answer,
    ):
        return str(answer.read().decode())
    return ""


def count_orders(page: int) -> int:
    """The number of orders on the page; 0 if it is unavailable."""
    found = re.search(r"(\d+) orders", read(page))
    return int(found[1]) if found else 0


@contextlib.contextmanager
def visiting(page: int) -> Iterator[list[str]]:
    """The pages that a visitor gets within the block, in sequence."""
    seen: list[str] = []
    ended = threading.Event()

    def visit() -> None:
        while not ended.wait(0.1):
            seen.append(read(page))

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        yield seen
    finally:
        ended.set()
        visitor.join()


def set_version(user: NodeUser, version: str) -> None:
    """Change the version of the shop."""
    patch = {"spec": {"parameters": {"version": version}}}
    user.kubectl.call("patch", "stack", "store", "--type=merge", f"--patch={json.dumps(patch)}")


def test_the_shop_serves_through_an_update_a_failure_and_a_suspension(user: NodeUser, page: int) -> None:
    user.kubectl.call("apply", f"--filename={EXAMPLE}")
    user.stack("wait", "store", "--timeout=3m")
    node_cluster.wait_until("orders", lambda: count_orders(page) > 0, lambda: user.stack("why", "store"))
    assert "Store 1.4" in read(page)

    with visiting(page) as seen:
        set_version(user, "1.5")
        user.stack("wait", "store", "--timeout=3m")
    assert "" not in seen  # either the old or the new version answers a request
    assert len(seen) > 20
    assert "Store 1.5" in read(page)

    before = count_orders(page)
    set_version(user, "9.9")
    node_cluster.wait_until(
        "the reason", lambda: "the image registry.example/store:9.9 cannot be pulled" in user.run_stack("why", "store").stdout,
        lambda: user.run_stack("why", "store").stdout,
    )  # fmt: skip
    assert "Store 1.5" in read(page)
    user.stack("rollback", "store", "--wait", "--timeout=3m")

    user.stack("suspend", "store", "--wait", "--timeout=3m")
    assert read(page) == ""
    user.stack("resume", "store", "--wait", "--timeout=3m")
    node_cluster.wait_until("the same orders", lambda: count_orders(page) > before)
