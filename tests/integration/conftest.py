"""Fixtures for a user, a world and operators on a real API server, each in its own namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hearth.kube.auth import credentials
from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client.connection import Connection
from support import process_lock
from support.real import operator_fleet, real_user, user_shell
from support.real.operator_fleet import Crew
from support.real.real_user import RealUser
from support.real.real_world import RealWorld
from support.real.stack_command import StackCommand
from support.real.user_shell import Paster


@pytest.fixture
def source(kubeconfig: Path) -> CredentialSource:
    """The administrator's credentials."""
    return credentials.find_source(kubeconfig=str(kubeconfig), context=None, environ={})


@pytest.fixture
async def connection(source: CredentialSource) -> AsyncIterator[Connection]:
    async with Connection(source) as opened:
        yield opened


@pytest.fixture
async def user(connection: Connection, namespace: str) -> RealUser:
    """A user with all rights, in a namespace of their own."""
    made = RealUser(connection, namespace)
    await real_user.install_all(made)
    return made


@pytest.fixture
async def world(user: RealUser, source: CredentialSource) -> AsyncIterator[RealWorld]:
    """A world in a namespace of its own."""
    made = RealWorld(user, source)
    made.open()
    yield made
    await made.close()


@pytest.fixture
def environment(kubeconfig: Path, namespace: str, tmp_path: Path) -> dict[str, str]:
    """A user's shell: kubectl with its plugin and hearth, in the namespace of the test."""
    return user_shell.make_environment(kubeconfig, namespace, tmp_path)


@pytest.fixture
def kubectl_stack(kubeconfig: Path, namespace: str) -> StackCommand:
    """The command, in the namespace of the test."""
    return StackCommand(kubeconfig=kubeconfig, namespace=namespace)


@pytest.fixture
def paster(environment: dict[str, str], kubectl_stack: StackCommand) -> Paster:
    """A user who pastes printed commands, in the namespace of the test."""
    return Paster(environment, kubectl_stack)


@pytest.fixture
async def workers(kubeconfig: Path, user: RealUser, tmp_path: Path) -> AsyncIterator[Crew]:
    """The operators of that namespace. At the end, their logs must have no errors, and no Stack may remain."""
    made = Crew(kubeconfig=kubeconfig, namespace=user.namespace, folder=tmp_path)
    yield made
    await made.dismiss()
    await operator_fleet.abandon_stacks(user)
    assert [line for each in made.members for line in each.find_complaints()] == []


@pytest.fixture
async def _alone_defines() -> AsyncIterator[None]:
    """Ensures that no other operator serves StackDefinitions during the test."""
    async with process_lock.held_meanwhile(process_lock.DEFINERS):
        yield


@pytest.fixture
def definers(_alone_defines: None, workers: Crew) -> Crew:
    """Operators of that namespace that may serve StackDefinitions. They exit before other operators may serve them."""
    return workers
