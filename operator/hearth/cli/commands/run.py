"""`hearth run`: flags and environment variables become frozen settings, and the operator is started with them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import click

from hearth import settings as settings_module
from hearth.cli import main as cli
from hearth.cli import profiling
from hearth.settings import Settings


class TextType(click.ParamType[Any]):
    """A flag whose text one function turns into a value or refuses by ValueError."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; a default that is one already stays as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


ADDRESS = TextType("host:port", settings_module.parse_address)
DURATION = TextType("duration", settings_module.parse_duration)
PROFILE = TextType("file", profiling.claim)


@click.command(
    # Stated anew, since click would put the name of the command into each variable.
    context_settings={"show_default": True, "auto_envvar_prefix": cli.ENVIRONMENT_PREFIX}
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    show_envvar=True,
    help="The kubeconfig file. Without it: the pod's own account where this is a pod, else what kubectl would take.",
)
@click.option("--context", show_envvar=True, help="The context of the kubeconfig. Without it: its current one.")
@click.option(
    "--namespace",
    show_envvar=True,
    help="Serve only the Stacks of this namespace. Without it: those of all namespaces.",
)
@click.option(
    "--operator-namespace",
    default=settings_module.find_operator_namespace,
    show_default="the pod's own, else hearth-system",
    show_envvar=True,
    help="Where the operator keeps what belongs to itself.",
)
@click.option(
    "--http-address",
    type=ADDRESS,
    default="127.0.0.1:8080",
    show_envvar=True,
    help="Where /healthz, /readyz and /metrics are served; port 0 takes any that is free.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_envvar=True,
    help="Lines for people, or one JSON object per line.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_envvar=True,
    help="The least severe messages to be shown.",
)
@click.option(
    "--max-concurrent-writes",
    type=click.IntRange(min=1),
    default=32,
    show_envvar=True,
    help="The most writes that may be on their way to the API server at once; its answers decide how many are.",
)
@click.option(
    "--max-backoff",
    type=DURATION,
    default="5m",
    show_envvar=True,
    help="The longest wait between two attempts at one resource, as in 90s, 5m or 1h30m.",
)
@click.option(
    "--leader-election/--no-leader-election",
    default=settings_module.is_pod,
    show_default="on in a pod, else off",
    show_envvar=True,
    help="Several processes take turns: one works, the others stand by until its Lease is free.",
)
@click.option(
    "--lease-name",
    show_default="hearth, followed by --namespace where that is given",
    show_envvar=True,
    help="The Lease in --operator-namespace that they take turns by.",
)
@click.option(
    "--lease-duration",
    type=DURATION,
    default="15s",
    show_envvar=True,
    help="How long others leave a Lease alone that is not renewed.",
)
@click.option(
    "--renew-deadline",
    type=DURATION,
    default="10s",
    show_envvar=True,
    help="A leader that could not renew its Lease for so long ends, so that another can begin.",
)
@click.option(
    "--retry-period",
    type=DURATION,
    default="2s",
    show_envvar=True,
    help="The time between two renewals, and between two attempts at one.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=settings_module.MAX_SHARDS),
    default=1,
    show_envvar=True,
    help="Among how many processes the Stacks are divided; each states the same number.",
)
@click.option(
    "--shard",
    type=click.IntRange(min=0),
    show_default="the ordinal of the StatefulSet's pod",
    show_envvar=True,
    help="Which of the --shards this one is, from 0 on.",
)
@click.option(
    "--profile",
    type=PROFILE,
    show_envvar=True,
    help="Write a profile of the engine's thread to this file at the end, to be read by `python -m pstats` or snakeviz. "
    "It takes up to half of the speed.",
)
@click.pass_obj
def run(programs: cli.Programs, /, **flags: Any) -> None:
    """Run the operator until it gets SIGTERM or SIGINT; a second one ends it at once.

    Each flag can also be given as the environment variable named beside it; the flag wins.
    """
    try:
        settings = make_settings(**flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if mistake := settings.validate():
        raise click.UsageError(mistake)
    raise SystemExit(programs.run(settings))


def make_settings(*, shards: int, shard: int | None, **flags: Any) -> Settings:
    """The settings that the flags mean; empty text, as of a variable that is set to nothing, counts as not given.

    Raises ValueError where the shard is not known.
    """
    given = {name: value for name, value in flags.items() if value not in ("", None)}
    return Settings(share=settings_module.find_share(shards, shard, host=socket.gethostname()), **given)
