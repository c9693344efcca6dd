"""`kubectl stack import` and `hearth import`: convert manifests, Helm releases, kro definitions and Heat templates.

This module reads the files and prints the result. `hearth.cli.importer` converts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from hearth.cli import text_files
from hearth.cli.command_classes import example_command
from hearth.cli.importer import kro_definition, stack_assembly
from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.stack_access import helm_releases
from hearth.cli.stack_commands import cluster_options, text_output
from hearth.cli.stack_commands.cluster_options import ClusterOptions
from hearth.cli.stack_views import safe_text
from hearth.model import errors
from hearth.model.api import stack_definition
from hearth.model.child import Object
from hearth.model.text import enumeration
from hearth.template.text import kubectl_yaml

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

UNNAMED = "imported"
LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
STACK_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
NAME_LENGTH = 63
ORDER = re.compile(r"(?:[0-9]+-)+(?=[a-z])")
"""Prefix of a file name that makes files apply in order: `00-`."""

RELEASE = re.compile(r"(?!.{54})[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""The names that Helm allows."""


def matching(pattern: re.Pattern[str] | str, mistake: str) -> Callable[..., str | None]:
    """Return an option callback that rejects values that do not match. mistake: the error message."""

    def check(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(pattern, value):
            raise click.BadParameter(f"{value!r} {mistake}")
        return value

    return check


@example_command(
    "kubectl stack import shop.yaml database.yaml > stack.yaml",
    "kubectl stack import --from-helm shop -n prod > stack.yaml",
    "kubectl get deployments,services -o yaml | kubectl stack import --adopt --name shop -",
    "kubectl stack import --from-kro webapp.yaml instances/*.yaml --group platform.example > webapps.yaml",
    "kubectl stack import --from-heat server.yaml -e production.yaml > stack.yaml",
    name="import",
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--name",
    callback=matching(
        STACK_NAME, "must be at most 63 lower-case letters, digits and dashes and begin with a letter, e.g. my-shop"
    ),
    help="Name of the Stack. Default: the name of the first file.",
)
@click.option(
    "-n",
    "--namespace",
    callback=matching(LABEL, "must be at most 63 lower-case letters, digits and dashes, e.g. my-shop"),
    help="Namespace of the Stack and of all objects that set none. Default: the namespace where the Stack is applied.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Let the Stack take over existing objects (spec.adoptionPolicy: Adopt).",
)
@click.option(
    "--secret-parameters",
    is_flag=True,
    help="Convert literal values of Secrets to sensitive parameters, and write a Secret with these values.",
)
@click.option(
    "--from-helm",
    "release",
    callback=matching(RELEASE, "is not a valid name of a release"),
    help="Name of a Helm release to import instead of files. Implies --adopt.",
)
@click.option(
    "--from-kro",
    is_flag=True,
    help="Convert kro ResourceGraphDefinitions and their instances to StackDefinitions and their instances.",
)
@click.option(
    "--group",
    callback=matching(stack_definition.GROUP, "is not an API group, e.g. platform.example"),
    help="With --from-kro: API group of the kinds. Default: the group in kro.",
)
@click.option(
    "--from-heat",
    is_flag=True,
    help="Convert an OpenStack Heat template (HOT) to a Stack for the OpenStack resource controllers.",
)
@click.option(
    "-e",
    "--environment",
    "environments",
    multiple=True,
    metavar="FILE",
    help="With --from-heat: environment file. Repeatable; later files take precedence.",
)
@click.option(
    "--registry-dir",
    "registry",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="With --from-heat: additional directory that nested templates and get_file may read. Repeatable.",
)
@click.option("--strict", is_flag=True, help="With --from-heat: fail if anything is lost.")
@click.option(
    "--report",
    type=click.Choice(["text", "json"], case_sensitive=False),
    help="With --from-heat: format of the report on standard error. Default: text.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False),
    help="With --from-helm: path of the kubeconfig. Default: the file that kubectl uses.",
)
@click.option("--context", help="With --from-helm: context in the kubeconfig. Default: its current context.")
def import_(  # noqa: PLR0913 -- each is an option
    files: tuple[str, ...],
    name: str | None,
    namespace: str | None,
    release: str | None,
    group: str | None,
    kubeconfig: str | None,
    context: str | None,
    environments: tuple[str, ...],
    registry: tuple[str, ...],
    report: str | None,
    *,
    adopt: bool,
    secret_parameters: bool,
    from_kro: bool,
    from_heat: bool,
    strict: bool,
) -> None:
    """Convert plain manifests to a Stack on standard output.

    FILE... are YAML or JSON files with any number of documents and lists, optionally compressed with gzip, or folders
    of such files, including subfolders. `-` is standard input. Each manifest becomes a resource. Objects keep their
    names. Resources wait for the objects that they reference, and custom resources wait for their controller. Fields
    that a cluster added to exported manifests (status, defaults, addresses) are dropped, and so are objects that
    controllers create (the Pods of a Deployment). A Stack that is too large for one object is written as compressed
    ConfigMaps and a Stack that references them.

    If annotations of Helm, Argo CD, Flux, kapp or kpt protect an object from deletion, it gets deletionPolicy: Retain.
    All other annotations of these tools, and everything that is left out, are reported.

    --from-helm reads the newest deployed revision of a release from the cluster, and creates a Stack that takes over
    its objects without recreating them. Hooks are left out and reported.

    --from-kro converts each ResourceGraphDefinition to a StackDefinition, and each instance to an object of its kind.
    Anything without an equivalent is reported.

    --from-heat converts a Heat template, its environments and its nested templates to a Stack: OpenStack resources
    become objects of the OpenStack resource controllers (openstack.k-orc.cloud), and Heat's own resources become
    Hearth's. Anything without an equivalent becomes a comment and is reported. Files are only read from the directory
    of the template and from --registry-dir.

    Exit code 0: done; 1: mistakes, or --strict and something is lost; 2: wrong usage.
    """
    if from_heat:
        if len(files) != 1 or adopt or secret_parameters or from_kro or group is not None or release is not None:
            raise click.UsageError(
                "--from-heat takes one template and cannot be combined with options of other imports"
            )
        write_heat(files[0], environments, registry, name=name, namespace=namespace, is_strict=strict, report=report)
        return
    if environments or registry or strict or report is not None:
        raise click.UsageError("--environment, --registry-dir, --strict and --report require --from-heat")
    if from_kro:
        if not files or name or namespace or adopt or secret_parameters or release is not None:
            raise click.UsageError("--from-kro takes files and can only be combined with --group")
        write_kro(read_all(files), group=group)
        return
    if group is not None:
        raise click.UsageError("--group requires --from-kro")
    if bool(files) == (release is not None):
        raise click.UsageError("specify files, or a release with --from-helm")
    if release is None:
        texts, named = read_all(files), name or name_after(files[0])
        write(texts, name=named, namespace=namespace, adopts=adopt, has_secret_parameters=secret_parameters)
        return
    known: ClusterOptions = click.get_current_context().meta.get(cluster_options.KEY, ClusterOptions())
    cluster = known.override(kubeconfig=kubeconfig, context=context, namespace=namespace)
    import_release(cluster, release, name=name or make_name(release), has_secret_parameters=secret_parameters)


def import_release(cluster: ClusterOptions, release: str, *, name: str, has_secret_parameters: bool) -> NoReturn:
    """Write the Stack for a Helm release, and end the program."""

    async def work(session: Session) -> int:
        namespace = cluster.find_namespace()
        with reporting():
            found = await helm_releases.get_release(session, namespace, release)
        for hook in found.hooks:
            text_output.write_warning(f"the hook {hook} is omitted: Stacks do not run hooks")
        write([found.text], name=name, namespace=namespace, adopts=True, has_secret_parameters=has_secret_parameters)
        secrets = f"kubectl delete secrets -n {namespace} -l owner=helm,name={release}"
        text_output.write_note(f"`helm uninstall` would delete the objects; once the Stack is ready: {secrets}")
        return 0

    cluster_options.run(cluster, work)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Report mistakes, one per line, and end the program."""
    try:
        yield
    except errors.InvalidDefinition as error:
        for mistake in error.mistakes:
            click.echo(f"error: {safe_text.clean(mistake)}", err=True)
        raise SystemExit(1) from error


def write(
    texts: Sequence[SourceText], *, name: str, namespace: str | None, adopts: bool, has_secret_parameters: bool = False
) -> None:
    """Write the Stack of all manifests. Ends the program if there are mistakes."""
    with reporting():
        result = stack_assembly.assemble(
            texts, name=name, namespace=namespace, adopts=adopts, has_secret_parameters=has_secret_parameters
        )
        objects = stack_assembly.divide(result.stack)
    for sentence in result.warnings:
        text_output.write_warning(sentence)
    for sentence in result.notes:
        text_output.write_note(sentence)
    click.echo(f"# Generated by `hearth import` from {safe_text.one_line(', '.join(text.source for text in texts))}.")
    if len(objects) > 1:
        count = len(objects) - 1
        message = (
            f"the template is too large for one object: it is stored in {count} compressed ConfigMap{'s'[: count > 1]}"
        )
        text_output.write_note(f"{message}, which the Stack references in spec.templateRefs")
    if result.secret is not None:
        objects.insert(0, result.secret)
        called, count = result.secret["metadata"]["name"], len(result.secret["stringData"])
        noun = "1 parameter" if count == 1 else f"{count} parameters"
        text_output.write_note(f"secret/{called} has the values of {noun}: store it separately from the Stack")
    for called in stack_assembly.find_unapplicable(objects):
        text_output.write_note(f"{called} is too large for plain `kubectl apply`: use `kubectl apply --server-side`")
    click.echo("---\n".join(map(kubectl_yaml.write, objects)), nl=False)


def write_kro(texts: Sequence[SourceText], *, group: str | None) -> None:
    """Write the StackDefinitions for all ResourceGraphDefinitions, and their instances.

    Ends the program if there are mistakes.
    """
    with reporting():
        result = kro_definition.convert_all(texts, group=group)
    objects = [*result.definitions, *result.instances]
    lost = [*result.lost, *find_unsound(result.definitions)]
    for sentence in lost:
        text_output.write_warning(f"no equivalent: {sentence}")
    for sentence in result.notes:
        text_output.write_note(sentence)
    counts = f"{count(result.definitions, 'StackDefinition')}, {count(result.instances, 'object')}"
    text_output.write_note(f"{counts}; {len(lost) or 'nothing'} to fix")
    sources = safe_text.one_line(", ".join(text.source for text in texts))
    click.echo(f"# Generated by `hearth import --from-kro` from {sources}.")
    click.echo("---\n".join(map(kubectl_yaml.write, objects)), nl=False)


def write_heat(  # noqa: PLR0913 -- each is an option
    file: str,
    environments: Sequence[str],
    registry: Sequence[str],
    *,
    name: str | None,
    namespace: str | None,
    is_strict: bool,
    report: str | None,
) -> None:
    """Write the Stack for a Heat template, with a report.

    Ends the program if there are mistakes, or --strict finds losses.
    """
    # Not needed by other imports.
    from hearth.cli.importer.heat import heat_report, heat_template

    is_input = file == text_files.STANDARD_INPUT
    with reporting():
        folder = None if is_input else Path(file).resolve().parent
        environment_texts = [(read(each), Path(each).resolve().parent) for each in environments]
        result = heat_template.read_stack(
            read(file),
            environment_texts,
            folder=folder,
            registry=[Path(each) for each in registry],
            name=name or (UNNAMED if is_input else name_after(file)),
            namespace=namespace,
        )
        plain = heat_report.strip(result.stack)
        objects = stack_assembly.divide(plain)
    found = heat_report.make_report(result.root, [*map(heat_report.write_loss, result.losses), *find_unsound([plain])])
    if report == "json":
        click.echo(found.write_json(), err=True)
    else:
        for sentence in found.list_sentences():
            text_output.write_warning(sentence)
        for sentence in found.notes:
            text_output.write_note(sentence)
        text_output.write_note(found.summarize())
    # Compressed parts have no comments, but the report contains all of them.
    text = (
        heat_report.write_stack(result.stack) if len(objects) == 1 else "---\n".join(map(kubectl_yaml.write, objects))
    )
    click.echo(
        f"# Generated by `hearth import --from-heat` from {safe_text.one_line(text_files.quote(file))}: "
        f"{found.summarize()}."
    )
    click.echo(text, nl=False)
    if is_strict and not found.is_complete:
        raise SystemExit(1)


def find_unsound(objects: Sequence[Object]) -> Iterator[str]:
    """Yield the mistakes in StackDefinitions or Stacks, one sentence each."""
    # Loads the compiler, which other imports do not need.
    from hearth.cli.stack_access.schema_folder import FolderKinds
    from hearth.cli.stack_commands.files import file_commands
    from hearth.cli.stack_views.files.stack_files import StackFile

    kinds = FolderKinds(None)
    with file_commands.evaluating() as evaluator:
        for each in objects:
            stack_file = StackFile(source=each["metadata"]["name"], manifest=each, beside=objects)
            mistakes = file_commands.find_mistakes(stack_file, kinds, evaluator)
            places: dict[tuple[str, str], list[str]] = {}
            # Later mistakes at the same place are consequences of the first one.
            for mistake in {each["path"]: each for each in reversed(mistakes)}.values():
                places.setdefault((mistake["stack"], mistake["message"]), []).append(mistake["path"])
            for (stack, message), paths in places.items():
                yield f"{stack}: {enumeration.enumerate_names(paths[::-1])}: {message}"


def count(found: Sequence[object], word: str) -> str:
    """Return how many there are: `2 objects`."""
    return f"{len(found)} {word}{'s'[: len(found) != 1]}"


def read_all(named: Sequence[str]) -> list[SourceText]:
    """Read files, and the manifests in folders. Ends the program if one cannot be read."""
    return [read(file) for each in named for file in text_files.find(each)]


def read(file: str) -> SourceText:
    """Read a file. Ends the program if it cannot be read."""
    # A line break in the name would end the comment around it and start a document.
    return SourceText(source=text_files.quote(file), content=text_files.read(file))


def name_after(file: str) -> str:
    """Return a name for a Stack from the name of a file: `online-boutique` for `data/01-Online_Boutique.yaml.gz`."""
    return make_name(Path(file.removesuffix(".gz")).stem)


def make_name(text: str) -> str:
    """Turn a text into the closest valid name of a Stack, which begins with a letter."""
    words = "-".join(re.findall(r"[a-z0-9]+", text.lower()))
    beginning = ORDER.match(words)
    words = words[beginning.end() :] if beginning is not None else words
    name = f"n{words}" if words[:1].isdigit() else words
    return name[:NAME_LENGTH].strip("-") or UNNAMED
