"""The tree and its changes as lines, and the outputs that show them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import rich.console

from hearth.cli.stack_commands import terminal_output
from hearth.cli.stack_views.tree import tree_view
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState, StackView

DISK = ResourceRow(resource="disk", object="persistentvolumeclaim/shop-disk", state=RowState.READY)
WEB = ResourceRow(resource="webFrontend", object="deployment", state=RowState.WAITING, note="waits for disk")
VIEW = StackView(
    name="shop",
    namespace="prod",
    phase="CreateInProgress",
    summary="1/2",
    revision=1,
    message="waits for webFrontend",
    rows=(DISK, WEB),
    outputs=(("url", "http://a"),),
)


def write(view: StackView, *, seconds: float = 12.4) -> str:
    return "\n".join("".join(text for text, _ in line) for line in tree_view.draw(view, seconds=seconds))


def test_the_tree_stands_in_columns() -> None:
    assert write(VIEW) == (
        "stack/shop in prod  CreateInProgress  1/2  revision 1  12 s\n"
        "├─ ✔ disk         persistentvolumeclaim/shop-disk  ready  \n"
        "└─ · webFrontend  deployment                       waiting  waits for disk\n"
        "\n"
        "waits for webFrontend\n"
        "url: http://a"
    )


def test_nested_rows_are_indented_and_ages_are_shown() -> None:
    cache = ResourceRow(
        resource="cache",
        object="stack/shop-cache",
        state=RowState.READY,
        nested=(DISK,),
        created="1970-01-01T00:00:00Z",
    )
    lines = tree_view.draw(replace(VIEW, rows=(cache, WEB)), now=90.0)

    assert ["".join(text for text, _ in line) for line in lines[1:4]] == [
        "├─ ✔ cache        stack/shop-cache                 ready    90s  ",
        "│  └─ ✔ disk      persistentvolumeclaim/shop-disk  ready         ",
        "└─ · webFrontend  deployment                       waiting         waits for disk",
    ]


def test_a_stack_that_is_gone_has_one_line() -> None:
    assert write(StackView(name="shop", namespace="prod", exists=False)) == "stack/shop  is deleted"


def test_every_state_has_a_sign_and_a_colour() -> None:
    assert tree_view.SIGNS.keys() == set(RowState)


def test_trouble_is_red() -> None:
    failed = replace(VIEW, is_stalled=True, rows=(replace(WEB, state=RowState.FAILED),))

    styles = [style for line in tree_view.draw(failed, seconds=0) for _, style in line]

    assert styles.count("red") == 5
    assert "green" in [style for line in tree_view.draw(replace(VIEW, is_ready=True), seconds=0) for _, style in line]


def test_the_first_look_tells_all_that_does_not_wait() -> None:
    assert list(tree_view.describe_changes(None, VIEW)) == [
        "disk  persistentvolumeclaim/shop-disk  ready",
        "stack/shop  CreateInProgress  1/2",
    ]


def test_nothing_changed_nothing_said() -> None:
    assert list(tree_view.describe_changes(VIEW, replace(VIEW, message="something else"))) == []


def test_what_changed_is_reported_alone() -> None:
    after = replace(
        VIEW,
        summary="2/2",
        phase="CreateComplete",
        rows=(DISK, ResourceRow(resource="webFrontend", object="deployment/shop-web-frontend", state=RowState.READY)),
    )

    assert list(tree_view.describe_changes(VIEW, after)) == [
        "webFrontend  deployment/shop-web-frontend  ready",
        "stack/shop  CreateComplete  2/2",
    ]


def test_that_a_stack_is_gone_is_reported_once() -> None:
    gone = StackView(name="shop", namespace="prod", exists=False)

    assert list(tree_view.describe_changes(VIEW, gone)) == ["stack/shop is deleted"]
    assert list(tree_view.describe_changes(gone, gone)) == []


def test_without_a_terminal_lines_are_printed() -> None:
    written = io.StringIO()

    with terminal_output.open_output(rich.console.Console(file=written, width=20)) as screen:
        screen.print_lines(["a sentence that is longer than the line"])
        screen.show(VIEW, seconds=1.25)
        screen.show(VIEW, seconds=2.5)

    assert not screen.stays
    assert written.getvalue() == (
        "a sentence that is longer than the line\n"
        "   1.2 s  disk  persistentvolumeclaim/shop-disk  ready\n"
        "   1.2 s  stack/shop  CreateInProgress  1/2\n"
    )


def test_on_a_terminal_the_tree_is_drawn_again() -> None:
    written = io.StringIO()
    console = rich.console.Console(file=written, width=40, force_terminal=True, color_system=None)

    with terminal_output.open_output(console) as screen:
        screen.show(VIEW, seconds=1)
        screen.print_lines(["a command that is longer than the line is never broken"])
        screen.show(replace(VIEW, phase="CreateComplete"), seconds=2)

    assert screen.stays
    assert written.getvalue().count("CreateInProgress") >= 1
    assert written.getvalue().count("CreateComplete") >= 1
    assert "a command that is longer than the line is never broken\n" in written.getvalue()
    assert "persis…-disk" in written.getvalue()


def test_on_a_terminal_nothing_is_drawn_while_nothing_changes() -> None:
    written = io.StringIO()
    console = rich.console.Console(file=written, width=100, force_terminal=True, color_system=None)

    with terminal_output.open_output(console) as screen:
        screen.show(VIEW, seconds=1)
        drawn = len(written.getvalue())
        for second in range(2, 10):
            screen.show(VIEW, seconds=second)
        assert len(written.getvalue()) == drawn
        screen.show(VIEW, seconds=12)
        assert len(written.getvalue()) > drawn


def fit(view: StackView, *, width: int, height: int | None = None) -> list[str]:
    lines = tree_view.draw(view, now=90.0, width=width, height=height)
    return ["".join(text for text, _ in line) for line in lines]


REASON = "waits for disk, whose claim waits for a volume that no class of storage of this cluster can make"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_reason_that_does_not_fit_continues_below_its_resource(width: int) -> None:
    view = replace(VIEW, rows=(DISK, replace(WEB, note=REASON)), message=REASON)
    lines = fit(view, width=width)

    assert all(len(line) < width for line in lines), lines
    text = " ".join(line.strip(" │") for line in lines)
    assert text.count(REASON) == 2


def test_a_tree_that_is_too_high_shows_what_needs_attention() -> None:
    ready = [replace(DISK, resource=f"disk{number}") for number in range(40)]
    failed = replace(WEB, resource="broken", state=RowState.FAILED, note=REASON)
    lines = fit(replace(VIEW, rows=(*ready[:20], failed, *ready[20:], WEB)), width=80, height=12)

    assert len(lines) == 12
    assert any("broken" in line for line in lines)
    assert any("webFrontend" in line for line in lines)
    assert any(line == "35 more resources, which need less attention" for line in lines), lines
