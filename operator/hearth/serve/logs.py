"""Configures logging: records of Hearth and of its libraries pass through the same processors to one stream.

Callers bind the fields `stack` (the UID, which is logged as kind and name) and `resource`.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from hearth import supervision
from hearth.model.text import hidden_texts
from hearth.settings import LogFormat, LogLevel

FIRST_FIELDS = ("timestamp", "level", "logger", "event", "stack_kind", "stack", "resource")

KOPF_OBJECTS = "kopf.objects"
LIBRARY_LEVELS = {
    # kopf logs every event, and at DEBUG whole objects, including Secrets.
    KOPF_OBJECTS: logging.WARNING,
    # Administrators do not need kopf's startup messages: the supervisor logs the relevant facts.
    "kopf": logging.WARNING,
    # kopf warns that it does not receive signals. This operator handles them.
    "kopf._core.reactor.running": logging.ERROR,
    "asyncio": logging.WARNING,
    "urllib3": logging.WARNING,
    "kubernetes": logging.WARNING,
}


def configure(*, format_: LogFormat, level: LogLevel, stream: TextIO = sys.stderr) -> None:
    """Send all logs of this process to `stream`; may be called again."""
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*make_common_processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(make_formatter(format_))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    # Otherwise, Python writes its warnings as plain text between the lines of JSON.
    logging.captureWarnings(False)  # so that the next call installs the hook even if other code removed it
    logging.captureWarnings(True)
    # Without the filter, each denied write of a tenant would be logged as an error of the operator.
    logging.getLogger(KOPF_OBJECTS).addFilter(is_no_denial)
    for name, least in LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(least, number))


def is_no_denial(record: logging.LogRecord) -> bool:
    """Return whether a record of kopf is anything but the outcome of an admission handler, which the user gets."""
    return not str(record.msg).startswith("Webhook ")


def make_common_processors() -> list[Processor]:
    """Make the processors of every message, whichever library logs it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        drop_library_fields,
        hidden_texts.redact_log,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def make_formatter(format_: LogFormat) -> logging.Formatter:
    """Make the formatter: one JSON object, or a line for people."""
    render = structlog.processors.JSONRenderer(default=str) if format_ == "json" else render_text
    last: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.ExceptionRenderer(describe_exception),
        sort_fields,
        render,
    ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=make_common_processors(), processors=last)


def describe_exception(exc_info: ExcInfo) -> str:
    """Describe an exception by types and code locations. Its message and variables may be secret."""
    return "\n".join(supervision.describe(exc_info[1]))


def drop_library_fields(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Remove the fields that kopf adds to its records: a reference to the object, and its settings."""
    for field in ("k8s_ref", "k8s_skip", "settings"):
        event.pop(field, None)
    return event


def sort_fields(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Sort the fields of the event by their importance to readers."""
    first = {field: event[field] for field in FIRST_FIELDS if field in event}
    return {**first, **{field: value for field, value in event.items() if field not in first}}


def render_text(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    """Render a line for people: time, level, event, the fields; a traceback below it.

    Not structlog's own renderer, which prints a field called `stack` as a separate trace.
    """
    fields = dict(event)
    time, level, sentence = (fields.pop(field, "") for field in ("timestamp", "level", "event"))
    trace = fields.pop("exception", None)
    logger = fields.pop("logger", "")
    words = [f"{time} {level:<7} {sentence}", *(f"{name}={quote(value)}" for name, value in fields.items())]
    line = " ".join([*words, f"[{logger}]"])
    return f"{line}\n{trace}" if trace else line


def quote(value: object) -> str:
    """Return `value` in quotes unless it is one plain word."""
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' ="') else repr(text)
