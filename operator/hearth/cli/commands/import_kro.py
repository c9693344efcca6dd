"""`hearth import --from-kro`: ResourceGraphDefinitions and their instances as StackDefinitions and theirs.

What has no counterpart is named on standard error, also what the compiler finds in the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import click

from hearth.cli.importer import manifest_documents
from hearth.cli.importer.kro import kro_definition
from hearth.cli.importer.kro.kro_definition import GROUP, KIND, Conversion
from hearth.cli.importer.manifest_documents import ManifestDocument, SourceText
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_views import safe_text
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.text import enumeration
from hearth.template.text import kubectl_yaml


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KroImport:
    """Result of an import."""

    definitions: tuple[Object, ...]
    """The StackDefinitions."""
    instances: tuple[Object, ...]
    """The objects of their kinds."""
    lost: tuple[str, ...]
    """What has no counterpart, a sentence each."""
    notes: tuple[str, ...]
    """What the user should know, a sentence each."""


def write(texts: Sequence[SourceText], *, group: str | None) -> None:
    """Write the StackDefinitions of all ResourceGraphDefinitions, and their instances. Raises InvalidDefinition."""
    result = convert(texts, group=group)
    objects = [*result.definitions, *result.instances]
    lost = [*result.lost, *find_unsound(result)]
    for sentence in lost:
        click.echo(f"warning: has no counterpart: {safe_text.one_line(sentence)}", err=True)
    for sentence in result.notes:
        click.echo(f"note: {safe_text.one_line(sentence)}", err=True)
    counts = f"{count(result.definitions, 'StackDefinition')}, {count(result.instances, 'object')}"
    click.echo(f"note: {counts}; {len(lost) or 'nothing'} to mend", err=True)
    sources = safe_text.one_line(", ".join(text.source for text in texts))
    click.echo(f"# Made by `hearth import --from-kro` from {sources}.")
    click.echo("---\n".join(map(kubectl_yaml.write, objects)), nl=False)


def find_unsound(kro_import: KroImport) -> Iterator[str]:
    """Yield the mistakes in the StackDefinitions, a sentence each."""
    kinds = FolderKinds(None)
    with file_commands.evaluating() as evaluator:
        for each in kro_import.definitions:
            stack_file = StackFile(source=each["metadata"]["name"], manifest=each, beside=kro_import.definitions)
            for mistake in file_commands.find_mistakes(stack_file, kinds, evaluator):
                yield f"{mistake['stack']}: {mistake['path']}: {mistake['message']}"


def convert(texts: Sequence[SourceText], *, group: str | None) -> KroImport:
    """Convert all definitions and instances in the texts. Raises InvalidDefinition with all that are neither.

    group: of the kinds; None: as in kro.
    """
    documents = manifest_documents.read_all(texts, default_namespace="default")
    conversions = [
        Conversion(document=each, group=group or kro_definition.find_group(each))
        for each in documents
        if kro_definition.is_definition(each)
    ]
    for conversion in conversions:
        conversion.convert()
    by_kind = {(kro_definition.find_group(each.document), each.kind): each for each in conversions}
    others = [each for each in documents if not kro_definition.is_definition(each)]
    if mistakes := [*find_strangers(others, by_kind), *find_missing(conversions, texts)]:
        raise InvalidDefinition(mistakes)
    notes = [note for each in conversions for note in find_notes(each)]
    if others:
        notes.append("apply the StackDefinitions first, and the objects once their kinds are served: apply twice")
    return KroImport(
        definitions=tuple(each.definition for each in conversions),
        instances=tuple(by_kind[each.group, each.kind].convert_instance(each) for each in others),
        lost=tuple(f"{call(each)}: {sentence}" for each in conversions for sentence in each.lost),
        notes=tuple(notes),
    )


def find_strangers(documents: Sequence[ManifestDocument], known: Collection[tuple[str, str]]) -> Iterator[Mistake]:
    """Yield a mistake for each document that is no instance of a definition in the same files. known: groups and kinds."""
    for document in documents:
        if (document.group, document.kind) not in known:
            message = f"{document.kind} {document.name} is no object of a kind of these files; pass its {KIND} as well"
            yield Mistake(path=document.place, message=message)


def find_missing(conversions: Sequence[Conversion], texts: Sequence[SourceText]) -> Iterator[Mistake]:
    """Yield a mistake if there is no definition, or one makes no kind."""
    if not conversions:
        yield Mistake(path=texts[0].source, message=f"contains no {KIND} of {GROUP}")
    for conversion in conversions:
        if not conversion.kind:
            yield Mistake(path=conversion.document.place, message="spec.schema.kind is missing; state the kind")


def find_notes(conversion: Conversion) -> Iterator[str]:
    """Yield what is otherwise than in kro."""
    name = f"{call(conversion)}:"
    if conversion.optional:
        listed = enumeration.enumerate_names(conversion.optional)
        yield f"{name} what kro lets be left out must be set, unless you give it a default: {listed}"
    if conversion.foreign:
        listed = enumeration.enumerate_names(conversion.foreign)
        own = "chooses a namespace of its own" if len(conversion.foreign) == 1 else "choose namespaces of their own"
        yield f"{name} {listed} {own}: without spec.account and boundary: Cluster that must be the one of the instance"
    if conversion.group == GROUP:
        yield (
            f"{name} the kind is one of {GROUP}; choose a group of your own with --group, or stop kro and delete its "
            "CustomResourceDefinition before, which deletes all its objects"
        )


def call(conversion: Conversion) -> str:
    """Return how messages name a definition."""
    return f"{conversion.document.kind} {conversion.document.name}"


def count(found: Sequence[object], word: str) -> str:
    """Return how many there are: `2 objects`."""
    return f"{len(found)} {word}{'s'[: len(found) != 1]}"
