"""Parsing of settings from text."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from hearth import settings
from hearth.model.sharding import WHOLE, Share
from hearth.settings import Address, Settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("127.0.0.1:8080", Address(host="127.0.0.1", port=8080), id="host and port"),
        pytest.param("localhost:0", Address(host="localhost", port=0), id="any free port"),
        pytest.param("[::1]:80", Address(host="::1", port=80), id="IPv6"),
        pytest.param(":8080", Address(host="0.0.0.0", port=8080), id="no host: all of them"),
    ],
)
def test_an_address_is_read(text: str, expected: Address) -> None:
    assert settings.parse_address(text) == expected


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:", "localhost:http", "::1:80", "a:65536", "a:-1", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address: write .*, e.g. "):
        settings.parse_address(text)


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "[::1]:80"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(settings.parse_address(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("90s", timedelta(seconds=90), id="seconds"),
        pytest.param("5m", timedelta(minutes=5), id="minutes"),
        pytest.param("1h30m", timedelta(hours=1, minutes=30), id="hours and minutes"),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert settings.parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "0s", "5 m", "m", "-5m", "30m1h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a positive duration"):
        settings.parse_duration(text)


def test_a_pod_is_given_its_own_namespace(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("platform\n")

    assert settings.find_operator_namespace(file) == "platform"


def test_outside_of_a_pod_the_namespace_is_the_usual_one(tmp_path: Path) -> None:
    assert settings.find_operator_namespace(tmp_path / "namespace") == "hearth-system"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(Settings(), "hearth", id="serves all namespaces"),
        pytest.param(Settings(namespace="shop"), "hearth-shop", id="serves one"),
        pytest.param(Settings(namespace="shop", lease_name="mine"), "mine", id="is reported"),
        pytest.param(Settings(share=Share(index=1, count=4)), "hearth-1-of-4", id="a share"),
    ],
)
def test_who_serves_something_else_waits_for_another_lease(given: Settings, expected: str) -> None:
    assert given.find_lease_name() == expected


def test_a_pod_is_known_by_its_own_account(tmp_path: Path) -> None:
    file = tmp_path / "namespace"

    assert not settings.is_pod(file)
    file.write_text("platform\n")
    assert settings.is_pod(file)


@pytest.mark.parametrize(
    ("shards", "shard", "host", "expected"),
    [
        pytest.param(1, None, "laptop", WHOLE, id="one process"),
        pytest.param(4, 2, "hearth-1", Share(index=2, count=4), id="stated"),
        pytest.param(4, None, "hearth-3", Share(index=3, count=4), id="a StatefulSet's pod"),
    ],
)
def test_a_share_is_stated_or_reported_by_the_name_of_the_pod(
    shards: int, shard: int | None, host: str, expected: Share
) -> None:
    assert settings.find_share(shards, shard, host=host) == expected


@pytest.mark.parametrize(
    ("shard", "host", "words"),
    [
        pytest.param(
            None, "hearth-6c9f7d5b8-x2x4q", "'hearth-6c9f7d5b8-x2x4q' does not end in an ordinal", id="of a Deployment"
        ),
        pytest.param(None, "hearth-2", "there is no shard 2 of 2", id="a pod too many"),
    ],
)
def test_a_share_that_is_none_is_refused(shard: int | None, host: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        settings.find_share(2, shard, host=host)


@pytest.mark.parametrize("text", ["secret", "Secret,", "Secret Certificate", "Deployment.Apps", "*"])
def test_what_is_no_kind_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a kind: write Kind or Kind\.group"):
        settings.parse_kinds(text)
