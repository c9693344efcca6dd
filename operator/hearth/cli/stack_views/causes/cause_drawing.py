"""An explanation as lines with colors: each cause below what it explains, its command behind an arrow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.causes.cause import Cause
from hearth.model.child import Object

Segments = list[tuple[str, str]]


def draw(causes: Sequence[Cause], *, now: float, before: str = "") -> Iterator[Segments]:
    """Yield the lines of an explanation. now: seconds since the epoch."""
    for cause in causes:
        is_last = cause is causes[-1]
        branch, below = f"{before}{'└─ ' if is_last else '├─ '}", f"{before}{'   ' if is_last else '│  '}"
        first, *others = cause.message.split("\n")
        yield [(branch, "dim"), (cause.subject, "bold"), (f": {first}", ""), (describe_times(cause, now=now), "dim")]
        for line in others:
            yield [(f"{below}{'│  ' if cause.causes else '   '}", "dim"), (line, "")]
        if cause.command:
            yield [
                (f"{below}{'│  ' if cause.causes else '   '}", "dim"),
                ("→ ", "cyan"),
                (safe_text.one_line(cause.command), "cyan"),
            ]
        yield from draw(cause.causes, now=now, before=below)


def describe_times(cause: Cause, *, now: float) -> str:
    """Return since when, and when it is tried again."""
    words = []
    if ages.parse(cause.since) is not None:
        words.append(f"for {ages.describe(cause.since, now=now)}")
    retry = ages.parse(cause.next_try)
    if retry is not None:
        words.append(f"next try in {ages.format_age(retry - now)}")
    return f" [{', '.join(words)}]" if words else ""


def to_output(cause: Cause) -> Object:
    """Return a cause for programs."""
    output: Object = {"subject": cause.subject, "message": cause.message}
    for key, value in (("since", cause.since), ("nextTry", cause.next_try), ("command", cause.command)):
        output |= {key: value} if value else {}
    return output | ({"causes": [to_output(each) for each in cause.causes]} if cause.causes else {})
