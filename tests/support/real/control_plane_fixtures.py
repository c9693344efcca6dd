"""Fixtures for tests on a real API server: its address, a client, and a namespace for each test.

A test that uses one of them is automatically marked `cluster`. Without a control plane these fixtures fail; they never
skip, because a skipped test looks like a passed one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3.exceptions

from support import repository
from support.real.raw_api import RawApi

# `controlplane.py with` sets this variable, also for make, and stops the control plane afterward. KUBECONFIG is never
# read, because it may name a cluster that is not for tests.
VARIABLE = "HEARTH_TEST_KUBECONFIG"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need the control plane, before `-m` selects by marks."""
    for item in items:
        if "kubeconfig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of the control plane, the same one for all workers.

    Without make, it is started here and stays up, so that the next run of a single test does not wait.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        _start_or_reuse(request.config)
        given = _find_own()
    if not Path(given).is_file():
        pytest.fail(f"there is no kubeconfig at {given}, which {VARIABLE} names; unset it, or run `make cluster`")
    return Path(given)


@pytest.fixture(scope="session")
def api_client(kubeconfig: Path) -> Iterator[Any]:
    """A client of the official library, to arrange and inspect; the code under test uses its own."""
    import kubernetes.config

    config: Any = kubernetes.config  # only half of it is typed, which varies between versions
    with config.new_client_from_config(config_file=str(kubeconfig)) as client:
        yield client


@pytest.fixture(scope="session")
def is_own(kubeconfig: Path) -> bool:
    """Whether the tests own the control plane, which is then removed as a whole."""
    return str(kubeconfig) == _find_own()


@pytest.fixture
def namespace(api_client: Any, is_own: bool) -> Iterator[str]:
    """The name of a fresh namespace, unique to the test.

        On the tests' own control plane it stays: deleting a namespace takes more than a hundred requests, which delay
    the other tests.
    """
    # Importing the classes of the official client takes longer than many tests.
    api = RawApi(api_client)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}}
    made = api.send("POST", "/api/v1/namespaces", body=body)
    assert made.is_accepted, made.body
    name: str = made.body["metadata"]["name"]
    yield name
    if not is_own:
        with contextlib.suppress(urllib3.exceptions.HTTPError):  # the test may have stopped the server
            api.send("DELETE", f"/api/v1/namespaces/{name}")


def _find_own() -> str:
    """The kubeconfig of the control plane that tests start themselves."""
    found = subprocess.run(
        [sys.executable, repository.CONTROL_PLANE, "kubeconfig"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def _start_or_reuse(config: pytest.Config) -> None:
    """Show the progress as it comes, because the first start takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        outcome = subprocess.run([sys.executable, repository.CONTROL_PLANE, "up"], check=False)
    if outcome.returncode != 0:
        pytest.fail(
            f"no control plane: `{repository.CONTROL_PLANE} up` failed with {outcome.returncode}; its output says why"
        )
