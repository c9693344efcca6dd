"""Our credentials as kopf takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hearth.handlers import kopf_run
from hearth.kube.auth.credentials import Credentials

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_all_that_kopf_needs_is_handed_over() -> None:
    """Address, authority, certificate, key and token."""
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
    """A certificate alone is enough to log in."""
    info = kopf_run.make_connection_info(Credentials(server="https://server"), now=NOW)

    assert (info.ca_data, info.certificate_data, info.private_key_data) == (None, None, None)
    assert info.as_http_headers() == {}


def test_a_server_that_is_not_verified_is_not_verified_here_either() -> None:
    """As its kubeconfig says."""
    assert (
        kopf_run.make_connection_info(Credentials(server="https://server", is_verified=False), now=NOW).insecure is True
    )


def test_no_two_are_equal() -> None:
    """After one 401 kopf refuses for ever what equals the refused, and ends."""
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
    """So rotated tokens are taken up in time."""
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
    """Files of authorities often begin with a comment."""
    assert kopf_run.begin_at_pem(data) == expected
