"""Runs `lint` in a separate process, so that slow files and crashes do not affect the language server.

It reads texts and writes their findings, one JSON value per line.
"""

from __future__ import annotations

import functools
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import orjson
import yaml

from hearth.cli.language_server import kinds_source, outline
from hearth.cli.stack_commands.files import file_commands
from hearth.cli.stack_views.files import stack_files, stack_lint
from hearth.cli.stack_views.files.stack_files import StackFile
from hearth.model import object_fields
from hearth.model.child import Object
from hearth.model.kinds import Kinds
from hearth.template.text import kubectl_yaml

SECONDS: Final = 30
"""Time limit for one text. A Stack of 500 resources takes about one second."""
MEMORY: Final = 4 * 2**30
"""Bytes of address space; the largest Stack takes a quarter."""


def find(text: str, kinds: Kinds) -> list[Object]:
    """Return the mistakes, warnings and notes of a text, as `lint` finds them: each with level, message, kind, stack, path and rule.

    For invalid YAML, the last four are replaced by the offset.
    """
    try:
        documents = [document.value for document in kubectl_yaml.parse_documents(text)]
    except yaml.YAMLError as error:
        message = f"is not valid YAML: {kubectl_yaml.describe(error)}"
        is_excess = isinstance(error, kubectl_yaml.Excess)
        return [{"level": "error", "message": message, "offset": 0 if is_excess else outline.find_cause(text, error)}]
    found: list[Object] = []

    def add(level: str, stack_file: StackFile, sentence: str) -> None:
        found.append(describe(level, f"{stack_file.title}: {sentence}", stack_file.manifest, path="metadata.name"))

    warn, note = functools.partial(add, "warning"), functools.partial(add, "note")

    with file_commands.evaluating() as evaluator:
        for stack_file in stack_files.find_stacks({"": documents}, kinds=file_commands.LINTED):
            for mistake in file_commands.find_mistakes(stack_file, kinds, evaluator, warn=warn, note=note):
                message = stack_files.describe_mistake(mistake)
                found.append(describe("error", message, stack_file.manifest, path=mistake["path"]))
    return found


def describe(level: str, message: str, manifest: Mapping[str, Any], *, path: str) -> Object:
    """Return one finding."""
    name = object_fields.text(manifest, "metadata", "name")
    rule = stack_lint.find_rule(path) if level == "error" else ""
    return {"level": level, "message": message, "kind": manifest["kind"], "stack": name, "path": path, "rule": rule}


def serve(kinds: Kinds, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer each input line with one output line, until the input ends."""
    for line in requests:
        # Ends this process, even in an endless loop: the language server starts another one.
        signal.alarm(SECONDS)
        found = find(orjson.loads(line), kinds)
        signal.alarm(0)
        replies.write(orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE))
        replies.flush()


def main(source: str) -> None:
    """Serve standard input. source: as `KindsSource.write` returns it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    serve(kinds_source.read_source(source).load(), sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main(*sys.argv[1:])
