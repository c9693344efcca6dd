"""Logs: a common format, the order of fields, no accidental secrets, and the page that describes them."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog

from hearth.model.text import hidden_texts
from hearth.serve import logs
from hearth.settings import LogFormat, LogLevel
from support import repository
from support.units.restored_logging import restored_logging


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave the process's logging as it was found."""
    with restored_logging():
        yield


def configure(format_: LogFormat, level: LogLevel = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(format_=format_, level=level, stream=stream)
    return stream


def read_json(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_with_secret() -> None:
    password = "hunter2"
    raise RuntimeError(f"failed with {password}")


def test_a_json_line_begins_with_what_everybody_looks_for() -> None:
    stream = configure("json")

    structlog.get_logger("hearth.engine").info("applied", attempt=2, resource="web", stack="shop/web")

    (line,) = read_json(stream)
    assert list(line) == ["timestamp", "level", "logger", "event", "stack", "resource", "attempt"]
    assert (line["event"], line["logger"], line["level"]) == ("applied", "hearth.engine", "info")


def test_a_text_line_names_its_fields() -> None:
    stream = configure("text")

    structlog.get_logger("hearth.engine").warning("refused", reason="no such\nkind", stack="shop/web", empty="")

    time, rest = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", time)
    assert rest == "warning refused stack=shop/web reason='no such\\nkind' empty='' [hearth.engine]\n"


class Stack:
    hidden_texts = frozenset({"hunter2"})


def test_a_line_about_a_stack_has_its_kind_and_name_and_none_of_its_secrets() -> None:
    stream = configure("json")
    stack = Stack()
    hidden_texts.register(stack, uid="u-1", kind="WebApp.platform.example", name="shop/web")

    structlog.get_logger("hearth.engine").warning("step failed", stack="u-1", message="denied: hunter2")

    (line,) = read_json(stream)
    assert (line["stack_kind"], line["stack"]) == ("WebApp.platform.example", "shop/web")
    assert "hunter2" not in line["message"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_libraries_speak_in_the_same_format(format_: LogFormat) -> None:
    stream = configure(format_)

    logging.getLogger("some.library").warning("lost %d of %d", 1, 3, extra={"stack": "shop/web"})

    assert "lost 1 of 3" in stream.getvalue()
    if format_ == "json":
        assert read_json(stream)[0]["stack"] == "shop/web"


def test_kopf_says_what_went_wrong_and_nothing_else() -> None:
    stream = configure("json", "debug")

    for name in ("kopf.objects", "kopf.activities.login", "kopf._cogs.clients.watching"):
        logging.getLogger(name).info("something about an object")
        logging.getLogger(name).error("something failed", extra={"k8s_ref": {"name": "web"}})

    assert [line["event"] for line in read_json(stream)] == ["something failed"] * 3
    assert all("k8s_ref" not in line for line in read_json(stream))


@pytest.mark.parametrize(
    ("level", "expected"),
    [("debug", ["fine", "broad", "bad"]), ("info", ["broad", "bad"]), ("error", ["bad"])],
)
def test_the_level_holds_for_ours_and_theirs(level: LogLevel, expected: list[str]) -> None:
    stream = configure("json", level)

    for logger in (structlog.get_logger("hearth"), logging.getLogger("some.library")):
        logger.debug("fine")
        logger.info("broad")
        logger.error("bad")

    assert [line["event"] for line in read_json(stream)] == expected * 2


@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_traceback_shows_no_values(format_: LogFormat) -> None:
    stream = configure(format_)

    try:
        fail_with_secret()
    except RuntimeError:
        structlog.get_logger("hearth").exception("our bug")
        logging.getLogger("some.library").exception("their bug")

    assert stream.getvalue().count("RuntimeError") == 2
    assert stream.getvalue().count("fail_with_secret") == 2
    assert "hunter2" not in stream.getvalue()


def test_warnings_of_python_are_lines_like_any_other() -> None:
    stream = configure("json")

    warnings.warn("old ways", DeprecationWarning, stacklevel=1)

    (line,) = read_json(stream)
    assert line["logger"] == "py.warnings"
    assert "old ways" in line["event"]


def test_bound_fields_reach_every_line_of_a_pass() -> None:
    stream = configure("json")

    with structlog.contextvars.bound_contextvars(stack="shop/web"):
        structlog.get_logger("hearth").info("ours")
        logging.getLogger("some.library").warning("theirs")

    assert [line["stack"] for line in read_json(stream)] == ["shop/web"] * 2


def test_configuring_again_takes_the_place_of_the_first_time() -> None:
    first, second = configure("json"), configure("json")

    structlog.get_logger("hearth").info("once")

    assert first.getvalue() == ""
    assert len(read_json(second)) == 1


@pytest.mark.parametrize("value", ["a\nb", 'a" level="x', "a\u2028b", "a\x1b[31m", "a\r", "{}\n{}", "a=b c=d", "a\x00"])
def test_a_value_is_no_line_of_the_log(value: str) -> None:
    for format_ in get_args(LogFormat):
        stream = configure(format_)
        structlog.get_logger("hearth").info("step failed", message=value)
        (line,) = stream.getvalue().splitlines()
        assert line.isprintable()
        if format_ == "json":
            assert json.loads(line)["message"] == value


# docs/logs.md names sentences that the operator logs, and the fields that come first.


PAGE = (repository.DOCS / "logs.md").read_text()
EVENTS = re.findall(
    r"`([^`]+)`", "".join(re.findall(r"^\| (`[^|]+) \| [a-z, ]*(?:info|warning|error)", PAGE, re.MULTILINE))
)


def test_each_sentence_of_the_page_is_logged() -> None:
    code = "\n".join(path.read_text() for path in (repository.OPERATOR / "hearth").rglob("*.py"))

    assert len(EVENTS) > 10
    assert [event for event in EVENTS if f'"{event}"' not in code] == []


def test_the_fields_of_each_line_are_described() -> None:
    assert [field for field in logs.FIRST_FIELDS if f"| `{field}` |" not in PAGE] == []
