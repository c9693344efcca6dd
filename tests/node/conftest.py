"""Tests on a real node: `make test-node`. All tests here have the mark `node`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import places
import progress
import pytest

import node as node_program
from support import repository
from support.node.node_cluster import VARIABLE, NodeCluster, NodeUser

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests before `-m` selects by marks."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.node)


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[NodeCluster]:
    """The node of `make test-node`; without make, one that ends with these tests."""
    if VARIABLE in os.environ:
        yield NodeCluster(places.Home(os.environ[VARIABLE]))
        return
    if hasattr(request.config, "workerinput"):
        pytest.fail("several test processes share a node only in `make test-node`")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    home = places.Home("node")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        try:
            keeper = node_program.start(home)
        except progress.Impossible as error:
            pytest.fail(str(error))
    yield NodeCluster(home)
    node_program.release(keeper)


@pytest.fixture(scope="session")
def installed(node: NodeCluster) -> float:
    """Install Hearth from `manifests/install` for all tests; yields the seconds until both replicas served."""
    started = time.monotonic()
    node.kubectl.call("apply", "--server-side", "-k", str(repository.MANIFESTS / "install"))
    node.kubectl.call("rollout", "status", "deployment/hearth", "--timeout=180s")
    return time.monotonic() - started


@pytest.fixture
def user(node: NodeCluster, installed: float) -> Iterator[NodeUser]:
    """A user with a separate namespace, on a node where Hearth runs."""
    with node.running_user() as made:
        yield made


@pytest.fixture(scope="module")
def module_user(node: NodeCluster, installed: float) -> Iterator[NodeUser]:
    """A user with a separate namespace, for the cases of a module that are played in parallel."""
    with node.running_user() as made:
        yield made
