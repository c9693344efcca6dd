"""The handlers, kopf's settings and its login: handlers only pass on events, and kopf restarts after failures and
writes nothing.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import pytest

from hearth.handlers import kopf_run
from hearth.handlers.callbacks import HandlerCallbacks
from hearth.kube.auth.credentials import Credentials, NoCredentials
from hearth.model import names

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
    """The calls of the handlers, in order."""

    def callbacks(self) -> HandlerCallbacks:
        return HandlerCallbacks(on_kinds=lambda: self.append("kinds"))


async def test_a_handler_callbacks_and_does_nothing_else() -> None:
    calls = Calls()

    await kopf_run.KopfHandlers(Source(None), calls.callbacks()).wake_discovery(type="ADDED", body={"spec": {}})

    assert calls == ["kinds"]


async def test_login_reads_the_credentials_again() -> None:
    handlers = kopf_run.KopfHandlers(Source(Credentials(server="https://server")), Calls().callbacks())

    assert (await handlers.authenticate()).server == "https://server"


async def test_credentials_that_cannot_be_read_are_tried_again() -> None:
    with pytest.raises(NoCredentials):
        await kopf_run.KopfHandlers(Source(None), Calls().callbacks()).authenticate()


def test_no_handler_has_fifteen_lines() -> None:
    tree = ast.parse(inspect.getsource(kopf_run))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.col_offset]

    assert len(functions) == 4
    assert [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= LINES_AT_MOST] == []


def test_two_registries_share_nothing() -> None:
    """The global registry of kopf would give each run the handlers of all runs."""
    made = kopf_run.make_registry(Source(None), Calls().callbacks())

    assert made is not kopf_run.make_registry(Source(None), Calls().callbacks())
    assert made is not kopf.get_default_registry()


def test_attempts_never_end_and_each_loop_starts_again() -> None:
    forever = kopf_run.EndlessBackoff(uniform=lambda low, high: (low + high) / 2)

    first = list(itertools.islice(forever, 1000))

    assert first[:3] == [1.0, 1.0, 2.0]
    assert len(first) == 1000
    assert max(first) <= kopf_run.LONGEST_PAUSE
    assert list(itertools.islice(forever, 1000)) == first


def test_kopf_is_configured_against_what_it_must_not_do() -> None:
    settings = kopf_run.make_settings()

    assert settings.process.ultimate_exiting_timeout is None
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is True


def test_the_length_of_a_stream_is_a_whole_number() -> None:
    assert type(kopf_run.make_settings().watching.server_timeout) is int


# Hearth's credentials in kopf's form.


NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_all_that_kopf_needs_is_handed_over() -> None:
    info = kopf_run.make_connection_info(
        Credentials(
            server="https://server:6443",
            authority=PEM,
            certificate=PEM + b"1",
            key=PEM + b"2",
            authorization="Bearer some-token",
            proxy="http://proxy:3128",
        ),
        now=NOW,
    )

    assert (info.server, info.proxy_url, info.insecure) == ("https://server:6443", "http://proxy:3128", False)
    assert (info.ca_data, info.certificate_data, info.private_key_data) == (PEM, PEM + b"1", PEM + b"2")
    assert info.as_http_headers() == {"Authorization": "Bearer some-token"}


def test_what_is_not_there_is_not_handed_over() -> None:
    info = kopf_run.make_connection_info(Credentials(server="https://server"), now=NOW)

    assert (info.ca_data, info.certificate_data, info.private_key_data) == (None, None, None)
    assert info.as_http_headers() == {}


def test_a_server_that_is_not_verified_is_not_verified_here_either() -> None:
    assert (
        kopf_run.make_connection_info(Credentials(server="https://server", is_verified=False), now=NOW).insecure is True
    )


def test_no_two_are_equal() -> None:
    """After a 401, kopf permanently rejects credentials that are equal to the rejected ones, and exits."""
    credentials = Credentials(server="https://server")

    first, second = (kopf_run.make_connection_info(credentials, now=NOW) for _ in range(2))

    assert first != second


@pytest.mark.parametrize(
    ("expires_in", "expected"),
    [
        pytest.param(None, timedelta(minutes=15), id="nothing is known: a quarter of an hour"),
        pytest.param(timedelta(hours=1), timedelta(minutes=15), id="later: a quarter of an hour"),
        pytest.param(timedelta(minutes=5), timedelta(minutes=5), id="sooner: just then"),
    ],
)
def test_kopf_asks_again_before_they_run_out(expires_in: timedelta | None, expected: timedelta) -> None:
    expires_at = None if expires_in is None else (NOW + expires_in).timestamp()

    ends = kopf_run.find_expiration(Credentials(server="https://server", expires_at=expires_at), now=NOW)

    assert timedelta(0) < ends - NOW - expected < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(PEM, PEM, id="as it should be"),
        pytest.param(b"# Our own authority\n" + PEM, PEM, id="a comment before it, which kopf would take for base64"),
        pytest.param(b"AAAA", b"AAAA", id="something else is left to kopf"),
    ],
)
def test_certificates_begin_where_kopf_looks_for_them(data: bytes | None, expected: bytes | None) -> None:
    assert kopf_run.begin_at_pem(data) == expected


@pytest.mark.parametrize("annotation", [*names.ROLLOUT_REQUESTS, names.ANNOTATION_APPROVALS])
def test_a_request_about_a_rollout_is_a_change_of_the_definition(annotation: str) -> None:
    def build(**annotations: str) -> object:
        raw: Any = {"metadata": {"name": "sites", "generation": 1, "annotations": annotations}}
        return kopf_run.GenerationStorage().build(body=kopf.Body(raw))

    assert build() == build(other="1")
    assert len({str(build()), str(build(**{annotation: "1"})), str(build(**{annotation: "2"}))}) == 3
