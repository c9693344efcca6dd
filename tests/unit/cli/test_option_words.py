"""Options that take one of some words: the words of the docs, in any case."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from hearth.cli import main
from hearth.cli.stack_commands import stack_group

AS_KUBERNETES_WRITES_THEM = {"Normal", "Warning"}


def find_choices(group: click.Command, context: click.Context) -> Iterator[tuple[str, click.Choice[str]]]:
    """Every option with a choice of words, with its place."""
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from find_choices(command, click.Context(command, parent=context, info_name=name))
    for option in group.params:
        if isinstance(option.type, click.Choice):
            yield f"{context.command_path} {option.opts[-1]}", option.type


CHOICES = dict(
    [each for name, root in (("hearth", main.main), ("stack", stack_group.stack)) for each in find_choices(root, click.Context(root, info_name=name, **root.context_settings))]
)  # fmt: skip


@pytest.mark.parametrize("place", CHOICES)
def test_a_word_is_taken_in_any_case_and_shown_as_it_is_documented(place: str) -> None:
    """`--tenancy trusted`, never `TRUSTED`; and the value within is the same one."""
    choice = CHOICES[place]
    shown = list(choice.choices)

    assert all(type(word) is str and (word == word.lower() or word in AS_KUBERNETES_WRITES_THEM) for word in shown)
    for word in shown:
        taken = [choice.convert(each, None, None) for each in (word, word.upper(), word.lower(), word.title())]
        assert taken == [word] * 4


def test_every_command_was_looked_at() -> None:
    """Both programs: `hearth` and `kubectl stack`."""
    assert {"hearth run --tenancy", "stack diff --tenancy"} <= set(CHOICES)
