"""Addresses of the page, and failed sign-ins."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from hearth.cli.team_page import request_rules
from hearth.cli.team_page.request_rules import FailedSignIns, InvalidUrl
from hearth.model import limits


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("https://Hearth.Example.com", "hearth.example.com", "https://hearth.example.com"),
        ("https://hearth.example.com:443/", "hearth.example.com", "https://hearth.example.com"),
        ("https://hearth.example.com:8443", "hearth.example.com:8443", "https://hearth.example.com:8443"),
        ("http://localhost:8080", "localhost:8080", "http://localhost:8080"),
        ("https://[2001:db8::1]:8443", "[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
    ],
)
def test_an_address_is_written_as_browsers_do(url: str, host: str, origin: str) -> None:
    address = request_rules.parse_address(url)

    assert (address.host, address.origin) == (host, origin)


@pytest.mark.parametrize(
    "url",
    [
        "hearth.example.com",
        "https://",
        "ftp://hearth.example.com",
        "https://hearth.example.com/page",
        "https://hearth.example.com?a=1",
        "https://hearth.example.com:x",
        "http://hearth.example.com",
        "https://hürth.example.com",
        "https://*.example.com",
        "https://a.example,b.example",
        "https://user:password@hearth.example.com",
    ],
)
def test_an_address_that_browsers_cannot_use_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        request_rules.parse_address(url)


@pytest.mark.parametrize(
    ("remote", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("unix", "unix"),
        (None, ""),
    ],
)
def test_one_user_has_one_address(remote: str | None, client: str) -> None:
    nothing = CIMultiDictProxy(CIMultiDict[str]())

    assert request_rules.find_client(remote, nothing, is_behind_proxy=False) == client


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.7:50123", "203.0.113.7"),
        ("198.51.100.1, [2001:db8::1]:50123", "2001:db8::/64"),
        ("[2001:db8::1]", "2001:db8::/64"),
    ],
)
def test_a_proxy_may_add_the_port_of_a_client(forwarded: str, client: str) -> None:
    headers = CIMultiDictProxy(CIMultiDict({"X-Forwarded-For": forwarded}))

    assert request_rules.find_client("10.0.0.1", headers, is_behind_proxy=True) == client


def test_an_address_that_is_none_counts_for_the_proxy() -> None:
    headers = CIMultiDictProxy(CIMultiDict({"X-Forwarded-For": "203.0.113.7, for=evil"}))

    assert request_rules.find_client("10.0.0.1", headers, is_behind_proxy=True) == "10.0.0.1"
    assert request_rules.find_client("10.0.0.1", headers, is_behind_proxy=False) == "10.0.0.1"


def test_failures_are_forgotten_after_a_minute_and_take_bounded_memory() -> None:
    failures = FailedSignIns()
    for at in range(limits.PAGE_FAILED_SIGN_INS):
        assert failures.find_delay("a", now=at) == 0
        failures.add("a", now=at)

    assert failures.find_delay("a", now=10) == pytest.approx(50)
    assert failures.find_delay("b", now=10) == 0
    assert failures.find_delay("a", now=61) == 0
    for number in range(limits.PAGE_ADDRESSES + 5):
        failures.add(str(number), now=70)
    assert len(failures._failures) == limits.PAGE_ADDRESSES
