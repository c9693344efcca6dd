"""Random names and contents: an import is either refused or writes a correct template."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies

from hearth.cli.commands import import_
from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.stack_access.schema_folder import FolderKinds
from hearth.cli.stack_views.files import stack_files
from hearth.model import errors, names
from hearth.model.kinds import Kind
from hearth.template.text import kubectl_yaml
from support.units import imported_texts

STACK_NAME = import_.STACK_NAME


def import_texts(contents: list[str], *, file: str) -> str | None:
    """Return the output of `hearth import`, None if it fails."""
    texts = [SourceText(source=f"{at}.yaml", content=content) for at, content in enumerate(contents)]
    try:
        found = stack_assembly.assemble(texts, name=import_.name_after(file), namespace=None)
        return "---\n".join(map(kubectl_yaml.write, stack_assembly.divide(found.stack)))
    except errors.InvalidDefinition:
        return None


class KindsWithoutSchemas(FolderKinds):
    """Kinds without schemas: any field may hold any value."""

    def find_schema(self, kind: Kind) -> None:
        """Return None."""


def lint(text: str) -> list[str]:
    """Return the mistakes of the Stacks in a text."""
    documents = [document.value for document in kubectl_yaml.parse_documents(text)]
    mistakes = []
    for found in stack_files.find_stacks({"stack.yaml": documents}, kinds=(names.STACK,)):
        try:
            stack_files.compile_stack(found, KindsWithoutSchemas(None))
        except errors.InvalidDefinition as error:
            mistakes += [str(mistake) for mistake in error.mistakes]
    return mistakes


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(contents=imported_texts.files(), file=imported_texts.FILE_NAMES)
def test_what_an_import_writes_has_no_mistake(contents: list[str], file: str) -> None:
    written = import_texts(contents, file=file)
    hypothesis.event("refused" if written is None else "written")
    if written is None:
        return

    assert lint(written) == []
    *_, stack = [document.value for document in kubectl_yaml.parse_documents(written)]
    assert STACK_NAME.fullmatch(stack["metadata"]["name"])
    assert len(stack["spec"]["template"]["resources"]) > 0


@hypothesis.settings(deadline=None, max_examples=60)
@hypothesis.given(contents=imported_texts.files(is_sound=True), file=imported_texts.FILE_NAMES)
def test_what_kubectl_accepts_is_imported(contents: list[str], file: str) -> None:
    written = import_texts(contents, file=file)

    assert written is not None
    assert lint(written) == []


@hypothesis.given(strategies.text(max_size=80) | imported_texts.FILE_NAMES)
def test_every_file_gives_a_stack_a_name(file: str) -> None:
    assert STACK_NAME.fullmatch(import_.name_after(file))
