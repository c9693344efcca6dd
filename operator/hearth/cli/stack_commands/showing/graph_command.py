"""`kubectl stack graph`: a Stack as a picture, as SVG or in the language of Graphviz or Mermaid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hearth.cli.example_command import ExampleCommand
from hearth.cli.stack_commands import cluster_options
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_commands.stack_argument import NAME

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

DONE, FAILED = 0, 1


@click.command(
    cls=ExampleCommand,
    examples=("kubectl stack graph shop -o svg > shop.svg", "kubectl stack graph shop -o mermaid"),
)
@NAME
@click.option(
    "-o",
    "--output",
    type=click.Choice(["dot", "mermaid", "svg"], case_sensitive=False),
    default="dot",
    show_default=True,
    help="The language.",
)
@cluster_options.cluster_options
def graph(cluster: ClusterOptions, name: str, output: str) -> None:
    """Draw the resources of a Stack with their states; an arrow leads from each to those that require it."""

    async def work(session: Session) -> int:
        from hearth.cli.stack_access.stack_reader import StackReader
        from hearth.cli.stack_commands.showing import list_execution
        from hearth.cli.stack_views.graph import layout, stack_graph, svg_drawing
        from hearth.cli.stack_views.tree import graph_text

        kind, namespace, named = list_execution.locate(cluster.find_namespace(), name)
        snapshot = await StackReader(session).read(namespace, named, kind=kind)
        if snapshot is None:
            cluster_options.complain(f'Error from server (NotFound): {kind.plural}.{kind.group} "{named}" not found')
            return FAILED
        if output == "svg":
            picture = layout.arrange(stack_graph.describe(snapshot))
            click.echo(svg_drawing.draw(picture, title=f"Resources of {snapshot.stack.title}"))
            return DONE
        draw = graph_text.to_dot if output == "dot" else graph_text.to_mermaid
        click.echo("\n".join(draw(snapshot)))
        return DONE

    cluster_options.run(cluster, work)
