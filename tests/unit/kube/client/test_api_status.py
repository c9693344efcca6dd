"""A `Status` from a server that may send anything: only fields of the correct type are kept."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from hearth.kube.client import api_status, http_transport
from hearth.kube.watch import watch_errors
from hearth.model import limits
from hearth.model.kinds import Kind
from hearth.plan.retry import api_errors

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
WHOLE = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "code": 422,
    "reason": "Invalid",
    "message": "no",
    "details": {
        "name": "a",
        "group": "g",
        "kind": "ConfigMap",
        "uid": "u",
        "causes": [{"reason": "R", "message": "m", "field": "f"}],
        "retryAfterSeconds": 7,
    },
}


def test_a_status_as_it_should_be_stays_as_it_is() -> None:
    assert api_status.clean(WHOLE) == WHOLE


@pytest.mark.parametrize("body", [None, 3, "Status", [], [WHOLE], True])
def test_what_is_no_map_is_nothing(body: Any) -> None:
    assert api_status.clean(body) == {}


WRONG = [1, [], {}, [1], None, True, 1.5]


@pytest.mark.parametrize("part", ["kind", "code", "reason", "message", "details"])
@pytest.mark.parametrize("value", WRONG, ids=str)
def test_a_part_of_a_wrong_type_reaches_no_caller(part: str, value: Any) -> None:
    refused = http_transport.refused(422, "", orjson.dumps({**WHOLE, part: value}))
    judge(refused.code, refused.status)
    cleaned = api_status.clean({**WHOLE, part: value})
    assert cleaned.get(part) in (None, {}) or (part, value) == ("code", 1)


@pytest.mark.parametrize("part", ["causes", "retryAfterSeconds", "name"])
@pytest.mark.parametrize("value", [*WRONG[1:], [None], [{"reason": 3, "message": []}]], ids=str)
def test_neither_does_a_detail(part: str, value: Any) -> None:
    refused = http_transport.refused(409, "", orjson.dumps({**WHOLE, "details": {**WHOLE["details"], part: value}}))  # type: ignore[dict-item]  # as a broken server answers
    judge(refused.code, refused.status)
    assert refused.status is not None
    assert refused.status["message"] == "no"


def judge(code: int, status: Any) -> None:
    """Run all readers of a status on it."""
    api_errors.classify(code, status, kind=CONFIG_MAP, body_size=10)
    watch_errors.classify_status(status or {}, code=code)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("0", 0.0, id="at once"),
        pytest.param("", None, id="nothing"),
        pytest.param("-7", None, id="below nothing"),
        pytest.param("NaN", None, id="no number"),
        pytest.param("inf", None, id="for ever"),
        pytest.param("²", None, id="a digit that is none"),
        pytest.param("1.5", None, id="a part of a second, which HTTP does not know"),
        pytest.param("9" * 400, limits.RETRY_AFTER, id="400 digits"),
        pytest.param("9" * 5_000, limits.RETRY_AFTER, id="5,000 digits"),
        pytest.param("86400", limits.RETRY_AFTER, id="a day"),
    ],
)
def test_a_server_cannot_ask_for_any_delay(header: str, seconds: float | None) -> None:
    assert api_status.find_delay(header, None) == seconds


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [(7, 7.0), (0, 0.0), (-1, None), (True, None), ("7", None), (2**63, limits.RETRY_AFTER), (1.5, None)],
)
def test_nor_can_its_status(stated: Any, seconds: float | None) -> None:
    status = api_status.clean({"details": {"retryAfterSeconds": stated}})
    assert api_status.find_delay("", status) == seconds


def test_a_message_without_end_is_cut() -> None:
    assert len(api_status.clean({"message": "x" * 10_000_000})["message"]) == limits.MESSAGE_LENGTH
