"""The handlers and kopf's settings: they wake, they never decide, and kopf neither ends for long nor writes anything."""

from __future__ import annotations

import ast
import inspect
import itertools

import kopf
import pytest

from hearth.handlers import kopf_run
from hearth.handlers.callbacks import HandlerCallbacks
from hearth.kube.auth.credentials import Credentials, NoCredentials

LINES_AT_MOST = 15


class Source:
    """Credentials that can be read, or not."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials

    def load(self) -> Credentials:
        if self._credentials is None:
            raise NoCredentials("no kubeconfig at ~/.kube/config")
        return self._credentials


class Calls(list[str]):
    """What the handlers called, in order."""

    def callbacks(self) -> HandlerCallbacks:
        return HandlerCallbacks(on_kinds=lambda: self.append("kinds"))


async def test_a_handler_callbacks_and_does_nothing_else() -> None:
    """All that kopf hands in is ignored."""
    calls = Calls()

    await kopf_run.KopfHandlers(Source(None), calls.callbacks()).wake_discovery(type="ADDED", body={"spec": {}})

    assert calls == ["kinds"]


async def test_login_reads_the_credentials_again() -> None:
    """Each time kopf asks."""
    handlers = kopf_run.KopfHandlers(Source(Credentials(server="https://server")), Calls().callbacks())

    assert (await handlers.authenticate()).server == "https://server"


async def test_credentials_that_cannot_be_read_are_tried_again() -> None:
    """Kopf retries a handler that raises an ordinary error, for ever; the sentence is in its log."""
    with pytest.raises(NoCredentials):
        await kopf_run.KopfHandlers(Source(None), Calls().callbacks()).authenticate()


def test_no_handler_has_fifteen_lines() -> None:
    """Where handlers grow, decisions have crept in."""
    tree = ast.parse(inspect.getsource(kopf_run))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.col_offset]

    assert len(functions) == 4
    assert [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= LINES_AT_MOST] == []


def test_two_registries_share_nothing() -> None:
    """Kopf's global registry would give each frame the handlers of all."""
    made = kopf_run.make_registry(Source(None), Calls().callbacks())

    assert made is not kopf_run.make_registry(Source(None), Calls().callbacks())
    assert made is not kopf.get_default_registry()


def test_attempts_never_end_and_each_loop_starts_again() -> None:
    """Kopf ends when its list of pauses does; a generator would be used up after the first loop."""
    forever = kopf_run.EndlessBackoff(uniform=lambda low, high: (low + high) / 2)

    first = list(itertools.islice(forever, 1000))

    assert first[:3] == [1.0, 1.0, 2.0]
    assert len(first) == 1000
    assert max(first) <= kopf_run.LONGEST_PAUSE
    assert list(itertools.islice(forever, 1000)) == first


def test_kopf_is_configured_against_what_it_must_not_do() -> None:
    """Kill the process, post events, look for peers, or watch all kinds."""
    settings = kopf_run.make_settings()

    assert settings.process.ultimate_exiting_timeout is None
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is True


def test_the_length_of_a_stream_is_a_whole_number() -> None:
    """It becomes `timeoutSeconds=…` as it is, and the server refuses `300.0`."""
    assert type(kopf_run.make_settings().watching.server_timeout) is int
