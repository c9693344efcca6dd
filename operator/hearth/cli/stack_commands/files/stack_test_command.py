"""`kubectl stack test`: runs the tests of Stacks in files, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import yaml

from hearth.cli import text_files
from hearth.cli.command_classes import example_command
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.model import errors
from hearth.template.text import kubectl_yaml

if TYPE_CHECKING:
    from hearth.cli.stack_views.stack_tests.stack_test_models import TestFile
    from hearth.cli.stack_views.stack_tests.stack_test_report import CaseResult

PASSED: Final = 0
FAILED: Final = 1
BROKEN: Final = 2
"""Exit code: a file is unreadable or not a test."""


@example_command(
    "kubectl stack test shop.stacktest.yaml",
    "kubectl stack test stacks/",
    "kubectl stack test stacks/ --junit results.xml",
    "kubectl stack test shop.stacktest.yaml --only 'rolls back'",
    name="test",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the results to this file, as JUnit XML.",
)
@click.option("--only", metavar="TEXT", help="Run only the tests with this text in their name.")
def test(files: tuple[str, ...], junit: Path | None, only: str | None) -> None:
    """Run the tests in *.stacktest.yaml files. FILE is a file, or a folder, which is searched recursively.

    Each test runs the operator's engine in an empty, simulated cluster: it sets parameters, plays statuses and failed
    writes, and compares objects, their order, the phase and the outputs. No cluster is needed.

    Exit code 0: all tests passed; 1: a test failed; 2: wrong usage, or a file cannot be read. The tests in all other
    files run anyway.
    """
    # These import the engine and the models, which `--help` does not need.
    from hearth.cli.stack_access import stack_previews
    from hearth.cli.stack_views.stack_tests import stack_test_report

    stack_previews.silence_engine()
    found, mistakes = read_tests(files)
    results = asyncio.run(run_all(found, mistakes, only=only))
    if not results and not mistakes:
        mistakes.append(f"no test has {only!r} in its name" if only else "the files contain no test")
    for mistake in mistakes:
        cluster_options.complain(f"error: {mistake}")
    if not results:
        raise SystemExit(BROKEN)
    text_output.write_lines(stack_test_report.list_lines(results))
    click.echo(stack_test_report.summarize(results))
    if junit is not None:
        write_junit(junit, stack_test_report.write_junit(results))
    if mistakes:
        raise SystemExit(BROKEN)
    raise SystemExit(PASSED if all(each.is_passed for each in results) else FAILED)


def read_tests(named: Sequence[str]) -> tuple[list[TestFile], list[str]]:
    """Return the tests in files and folders, and the mistakes of the files without valid tests."""
    from hearth.cli.stack_views.stack_tests import stack_test_models
    from hearth.cli.stack_views.stack_tests.stack_test_models import SUFFIX, InvalidTest

    found: list[TestFile] = []
    mistakes: list[str] = []
    for each in named:
        try:
            files = text_files.find(each, (SUFFIX,))
        except click.ClickException as error:
            mistakes.append(error.message)
            continue
        for file in files:
            try:
                text_files.check_inside(Path(file), Path(file).parent)
                documents = list(kubectl_yaml.parse_documents(text_files.read(file)))
                found += [stack_test_models.parse(text_files.quote(file), document.value) for document in documents]
            except yaml.YAMLError as error:
                mistakes.append(f"{text_files.quote(file)} is not valid YAML: {kubectl_yaml.describe(error)}")
            except click.ClickException as error:
                mistakes.append(error.message)
            except InvalidTest as error:
                mistakes.append(str(error))
    return found, mistakes


async def run_all(files: Sequence[TestFile], mistakes: list[str], *, only: str | None) -> list[CaseResult]:
    """Return the results of all tests. mistakes: receives those of tests that cannot run; only: a text that the names
    must contain.
    """
    from hearth.cli.stack_access import stack_trials
    from hearth.cli.stack_views.stack_tests.stack_test_models import InvalidTest

    results = []
    for file in files:
        for case in file.stack_test.tests:
            if only is not None and only not in case.name:
                continue
            try:
                results.append(await stack_trials.run_case(file, case))
            except (InvalidTest, errors.HearthError) as error:
                mistakes += [str(error)] if str(error) not in mistakes else []
    return results


def write_junit(file: Path, content: str) -> None:
    """Write a report. Ends the program if that is not possible."""
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        cluster_options.complain(f"error: cannot write {file}: {error.strerror}; pass another file with --junit")
        raise SystemExit(BROKEN) from error
