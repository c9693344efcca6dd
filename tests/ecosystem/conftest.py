"""Programs of other projects, built from source; all tests here have the mark `ecosystem`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.ecosystem import helm as helm_program
from support.ecosystem.helm import Helm
from support.ecosystem.release import Release
from support.threats.slots import Slots

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them before `-m` chooses by marks."""
    folder = f"{FOLDER}/"
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.ecosystem)


@pytest.fixture(scope="session")
def helm_path(request: pytest.FixtureRequest) -> Path:
    """Helm. The first build of all takes minutes, so its progress is shown."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return helm_program.build()


@pytest.fixture
def helm(helm_path: Path, tmp_path: Path) -> Helm:
    """Helm without a cluster."""
    return Helm(program=helm_path, home=tmp_path)


@pytest.fixture(scope="session")
def slots(worker_id: str) -> Iterator[Slots]:
    """Control planes with an installed chart."""
    made = Slots(is_alone=worker_id == "master", prefix="chart")
    yield made
    made.close()


@pytest.fixture
def release(slots: Slots, helm: Helm, tmp_path: Path) -> Iterator[Release]:
    """A release that is not installed yet, on a control plane reserved for the test. Everything is removed
    afterward.
    """
    with slots.take() as kubeconfig:
        made = Release(helm=replace(helm, kubeconfig=kubeconfig), kubeconfig=kubeconfig, folder=tmp_path)
        # Tests that need no release use the same control planes, and install the definitions themselves.
        made.clear()
        try:
            yield made
        finally:
            made.clear()
