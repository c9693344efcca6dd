"""Formats the results of tests as text and as JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from hearth.cli.stack_views import safe_text
from hearth.model import value_class

Line = list[tuple[str, str]]
INVALID_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of one test."""

    source: str
    """The name of the file."""
    name: str
    seconds: float
    differences: Sequence[str] = ()
    """Sentences, each with its step if there are several."""

    @property
    def is_passed(self) -> bool:
        """Return whether everything is as expected."""
        return not self.differences


def list_lines(results: Iterable[CaseResult]) -> Iterator[Line]:
    """Yield a line for each test, and for each difference."""
    for each in results:
        title = safe_text.one_line(f"{each.source}: {each.name}")
        yield [("PASS", "green") if each.is_passed else ("FAIL", "red"), (f"  {title}", "")]
        for difference in each.differences:
            yield [(f"      {safe_text.one_line(difference)}", "")]


def summarize(results: Sequence[CaseResult]) -> str:
    """Return the numbers of passed and failed tests as a sentence."""
    failed = sum(not each.is_passed for each in results)
    count = f"{len(results)} test{'s'[: len(results) != 1]}"
    return f"{count}: {len(results) - failed} passed, {failed} failed"


def write_junit(results: Sequence[CaseResult]) -> str:
    """Return the results as JUnit XML, one suite per file."""
    root = ElementTree.Element("testsuites", count_results(results) | {"name": "kubectl stack test"})
    for source, found in groupby(results, key=lambda each: each.source):
        cases = list(found)
        suite = ElementTree.SubElement(root, "testsuite", {"name": clean(source)} | count_results(cases))
        for each in cases:
            attributes = {"name": clean(each.name), "classname": clean(source), "time": f"{each.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", attributes | {"file": clean(source)})
            if not each.is_passed:
                failure = ElementTree.SubElement(case, "failure", {"message": clean(each.differences[0])})
                failure.text = clean("\n".join(each.differences))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def count_results(results: Sequence[CaseResult]) -> dict[str, str]:
    """Return the attributes of a suite."""
    return {
        "tests": str(len(results)),
        "failures": str(sum(not each.is_passed for each in results)),
        "errors": "0",
        "time": f"{sum(each.seconds for each in results):.3f}",
    }


def clean(text: str) -> str:
    """Return the text without characters that XML cannot contain."""
    return INVALID_XML.sub("�", text)
