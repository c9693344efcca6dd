"""`hearth demo`: parses the options of the demo, which `hearth.cli.demo` runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import click
import rich.console
import yaml

from hearth.cli import text_files
from hearth.cli.commands.run import DURATION
from hearth.cli.demo import demo_run
from hearth.cli.stack_commands import terminal_output
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.template.text import error_hints, kubectl_yaml


@click.command(context_settings={"show_default": True})
@click.option("--kubeconfig", type=click.Path(dir_okay=False), required=True, help="Kubeconfig of the cluster.")
@click.option("--example", type=click.Path(dir_okay=False), required=True, help="File that contains the Stack.")
@click.option("--namespace", default="default", help="Namespace of the Stack if its manifest sets none.")
@click.option("--timeout", type=DURATION, default="180s", help="Time limit until the Stack is ready.")
@click.option("--kubectl", type=click.Path(), help="The kubectl to suggest if PATH contains no kubectl.")
@click.option("--namespaced", is_flag=True, help="Run the operator only for the namespace of the Stack.")
def demo(
    kubeconfig: str, example: str, namespace: str, timeout: timedelta, kubectl: str | None, *, namespaced: bool
) -> None:
    """Create an example Stack and show its progress live.

    Installs the CustomResourceDefinitions, starts the operator, applies the example, shows a tree of its resources
    until it is ready, and then suggests what to try next. Ctrl-C stops the operator; objects in the cluster are kept.
    Without a terminal, prints changes, and exits with 0 when the Stack is ready or with 1 at the time limit.
    """
    plan = demo_run.DemoOptions(
        kubeconfig=str(Path(kubeconfig).absolute()),
        stack=read_stack(example, namespace=namespace),
        timeout=timeout,
        kubectl=kubectl,
        is_namespaced=namespaced,
    )
    try:
        with terminal_output.open_output(rich.console.Console(highlight=False)) as screen:
            code = asyncio.run(demo_run.run_demo(plan, screen))
    except errors.HearthError as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(code)


def read_stack(file: str, *, namespace: str) -> Object:
    """Return the only Stack in a file. Ends the program without one."""
    try:
        documents = list(kubectl_yaml.parse_documents(text_files.read(file)))
    except yaml.YAMLError as error:
        raise click.ClickException(f"{file} is not valid YAML: {kubectl_yaml.describe(error)}") from error
    stacks = [document.value for document in documents if is_stack(document.value)]
    if len(stacks) != 1:
        raise click.ClickException(
            f"{file} must contain exactly one Stack, found {len(stacks)}; set another file with --example"
        )
    stack: Object = stacks[0]
    stack["metadata"] = {"namespace": namespace, **stack["metadata"]}
    for word in ("name", "namespace"):
        if not isinstance(stack["metadata"][word], str):
            found = error_hints.describe(stack["metadata"][word])
            raise click.ClickException(f"{file}: metadata.{word} must be text, found {found}")
    return stack


def is_stack(value: object) -> bool:
    """Return whether a document is a Stack with a name."""
    if not isinstance(value, dict) or value.get("kind") != "Stack":
        return False
    metadata = value.get("metadata")
    return (
        value.get("apiVersion") == f"{names.GROUP}/{names.VERSION}"
        and isinstance(metadata, dict)
        and "name" in metadata
    )
