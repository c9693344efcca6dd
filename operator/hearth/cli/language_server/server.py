"""The language server: connects the LSP protocol to completion, navigation and lint.

It reads only texts that the editor sends, and the schemas of a folder or cluster, but never the file of a URI. It writes
no files. Of an error, it logs only the class, because the message may contain text of a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
import yaml
from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

import hearth
from hearth.cli.language_server import completion, outline, places, template_names
from hearth.cli.language_server.kinds_source import KindsSource
from hearth.cli.language_server.template_names import Span
from hearth.cli.stack_views.files import stack_lint
from hearth.model import limits, names, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kinds
from hearth.sandbox import process

LINT: Final = (sys.executable, "-P", "-m", "hearth.cli.language_server.lint_process")
PAUSE: Final = 0.3
"""Seconds without an edit before a text is linted."""
BREAK: Final = re.compile(r"\r\n|\n|\r")
TRIGGERS: Final = [".", "{"]
"""Characters after which an editor requests completion."""
ITEM_KINDS: Final = {
    template_names.PARAMS: types.CompletionItemKind.Variable,
    template_names.CONDITIONS: types.CompletionItemKind.Constant,
    template_names.VALUES: types.CompletionItemKind.Constant,
    template_names.RESOURCES: types.CompletionItemKind.Class,
}
SEVERITIES: Final = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
LOST: Final = "could not be checked: it takes too long or too much memory; split the file"
log = logging.getLogger(__name__)


class Linter:
    """The process that lints. It is started when first needed, and restarted after it ended."""

    def __init__(self, source: KindsSource) -> None:
        self._command = (*LINT, source.write())
        self._process: asyncio.subprocess.Process | None = None

    async def find(self, text: str) -> list[Object]:
        """Return the findings in a text; one caller at a time."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": process.find_import_path()},
                limit=limits.OBJECT_BYTES,
            )
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None and replies is not None  # noqa: S101, PT018 -- tells the type checker
        try:
            requests.write(orjson.dumps(text, option=orjson.OPT_APPEND_NEWLINE))
            await requests.drain()
            found: list[Object] = orjson.loads(await replies.readline())
        except (ValueError, ConnectionError):
            # The process ended, usually on its own; its return code is not available yet.
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process = None
            return [{"level": "warning", "message": LOST, "offset": 0}]
        return found


class Lines:
    """Offsets in a text as the positions of the protocol, in the units that the client chose."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        self._text = text
        self._codec = codec
        self._starts = [0, *(found.end() for found in BREAK.finditer(text))]

    def find_offset(self, position: types.Position) -> int:
        """Return the offset of a position; the nearest one for a position outside of the text."""
        if position.line >= len(self._starts):
            return len(self._text)
        start, end = (*self._starts, len(self._text))[position.line : position.line + 2]
        line = self._text[start:end].rstrip("\r\n")
        if line.isascii():
            return start + min(position.character, len(line))
        units, column = 0, 0
        while column < len(line) and units < position.character:
            units += self._codec.client_num_units(line[column])
            column += 1
        return start + column

    def make_range(self, span: Span) -> types.Range:
        """Return the range of a part of the text."""
        return types.Range(start=self._make_position(span.start), end=self._make_position(span.end))

    def _make_position(self, offset: int) -> types.Position:
        line = bisect_right(self._starts, offset) - 1
        before = self._text[self._starts[line] : offset]
        return types.Position(line, len(before) if before.isascii() else self._codec.client_num_units(before))


class StackServer(LanguageServer):
    """The server, with the texts that are open in the editor."""

    def __init__(self, source: KindsSource) -> None:
        super().__init__("hearth", hearth.__version__, types.TextDocumentSyncKind.Full)
        self.kinds = source.load()
        self.texts: dict[str, str] = {}
        self._linter = Linter(source)
        self._waiting: dict[str, None] = {}
        self._lint: asyncio.Task[None] | None = None

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log the class of an error, unless the client receives it: its message may contain the text of a file."""
        if source is not FeatureRequestError:
            log.error("failed: %s", type(error).__name__)

    def find_lines(self, uri: str) -> Lines:
        """Return the lines of an open text."""
        return Lines(self.texts[uri], self.workspace.position_codec)

    def take(self, uri: str, text: str) -> None:
        """Store the text of a file, and lint it soon."""
        # A lone UTF-16 surrogate cannot be passed on.
        self.texts[uri] = text.encode(errors="replace").decode()
        self._waiting[uri] = None
        if self._lint is None or self._lint.done():
            self._lint = asyncio.create_task(self._lint_waiting())

    def drop(self, uri: str) -> None:
        """Forget a file."""
        if self.texts.pop(uri, None) is not None:
            self.publish(uri, [])

    async def _lint_waiting(self) -> None:
        while self._waiting:
            await asyncio.sleep(PAUSE)
            uri = next(iter(self._waiting))
            del self._waiting[uri]
            try:
                await self._lint_text(uri, self.texts.get(uri, ""))
            except Exception as error:  # noqa: BLE001 -- the next edit starts another attempt
                self.report_server_error(error, None)

    async def _lint_text(self, uri: str, text: str) -> None:
        # Ignore any other YAML file, even if it is invalid.
        found = await self._linter.find(text) if names.GROUP in text else []
        if self.texts.get(uri) == text:
            self.publish(uri, [self._make_diagnostic(uri, each) for each in found])

    def _make_diagnostic(self, uri: str, finding: Object) -> types.Diagnostic:
        text = self.texts[uri]
        start, end = outline.find_line(text, int(finding.get("offset", 0)))
        span = Span(start=start, end=end)
        if "path" in finding:
            roots = template_names.analyze(text).outline.roots
            node = stack_lint.find_node(roots, finding["stack"], finding["path"], kind=finding["kind"])
            if isinstance(node, yaml.ScalarNode):
                span = template_names.find_span(node)
            elif node is not None:
                span = Span(start=node.start_mark.index, end=outline.find_line(text, node.start_mark.index)[1])
        return types.Diagnostic(
            range=self.find_lines(uri).make_range(span),
            message=finding["message"],
            severity=SEVERITIES[finding["level"]],
            source="hearth",
            code=finding.get("rule") or None,
        )

    def publish(self, uri: str, found: Sequence[types.Diagnostic]) -> None:
        """Send the findings in a file."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=found))

    def answer(self, ask: Callable[[Query], Any], params: Any) -> Any:
        """Return the answer at a position of an open text; None for any other file, one that is too large, and after a failure."""
        text = self.texts.get(params.text_document.uri)
        if text is None or len(text) > limits.SOURCE_BYTES:
            return None
        lines = self.find_lines(params.text_document.uri)
        offset = lines.find_offset(params.position)
        try:
            return ask(Query(params=params, text=text, offset=offset, lines=lines, kinds=self.kinds))
        except places.Refusal as refusal:
            raise JsonRpcException(str(refusal), types.LSPErrorCodes.RequestFailed) from refusal
        except Exception as error:  # noqa: BLE001 -- an editor shows each error in the user's way
            self.report_server_error(error, None)
            return None


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request at a position of a text."""

    params: Any
    text: str
    offset: int
    lines: Lines
    kinds: Kinds

    def locate(self, span: Span) -> types.Location:
        """Return a part of the text as a location."""
        return types.Location(self.params.text_document.uri, self.lines.make_range(span))


def complete(query: Query) -> list[types.CompletionItem]:
    """Return the words that can stand at the cursor."""
    return [make_item(each) for each in completion.complete(query.text, query.offset, query.kinds)]


def hover(query: Query) -> types.Hover | None:
    """Return the description of a word."""
    found = completion.describe(query.text, query.offset, query.kinds)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, found)) if found else None


def find_definition(query: Query) -> types.Location | None:
    """Return where a name is defined."""
    span = places.find_definition(query.text, query.offset)
    return query.locate(span) if span is not None else None


def find_references(query: Query) -> list[types.Location]:
    """Return where a name is used."""
    found = places.find_references(query.text, query.offset)
    return [*map(query.locate, found if query.params.context.include_declaration else found[1:])]


def prepare_rename(query: Query) -> types.Range | None:
    """Return the name that a rename would change."""
    span = places.find_renameable(query.text, query.offset)
    return query.lines.make_range(span) if span is not None else None


def rename(query: Query) -> types.WorkspaceEdit:
    """Return the edits that rename a name."""
    spans = places.rename(query.text, query.offset, query.params.new_name)
    edits = [types.TextEdit(query.lines.make_range(span), query.params.new_name) for span in spans]
    return types.WorkspaceEdit(changes={query.params.text_document.uri: edits})


ANSWERS: Final[Mapping[str, tuple[Callable[[Query], Any], Any]]] = {
    types.TEXT_DOCUMENT_COMPLETION: (complete, types.CompletionOptions(trigger_characters=TRIGGERS)),
    types.TEXT_DOCUMENT_HOVER: (hover, None),
    types.TEXT_DOCUMENT_DEFINITION: (find_definition, None),
    types.TEXT_DOCUMENT_REFERENCES: (find_references, None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: (prepare_rename, None),
    types.TEXT_DOCUMENT_RENAME: (rename, types.RenameOptions(prepare_provider=True)),
}


def make_server(source: KindsSource) -> StackServer:
    """Return the server with all its features."""
    server = StackServer(source)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def open_text(params: types.DidOpenTextDocumentParams) -> None:
        server.take(params.text_document.uri, params.text_document.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def change_text(params: types.DidChangeTextDocumentParams) -> None:
        if params.text_document.uri in server.texts and params.content_changes:
            server.take(params.text_document.uri, params.content_changes[-1].text)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def close_text(params: types.DidCloseTextDocumentParams) -> None:
        server.drop(params.text_document.uri)

    for method, (ask, options) in ANSWERS.items():
        register(server, method, ask, options)
    return server


def register(server: StackServer, method: str, ask: Callable[[Query], Any], options: Any) -> None:
    """Answer the requests of one method."""

    @server.feature(method, options)
    def answer(params: Any) -> Any:
        return server.answer(ask, params)


def make_item(candidate: completion.Candidate) -> types.CompletionItem:
    """Return a word of a completion."""
    return types.CompletionItem(
        label=candidate.label,
        kind=ITEM_KINDS.get(candidate.category, types.CompletionItemKind.Field),
        detail=candidate.detail,
        documentation=candidate.description or None,
    )


def serve(source: KindsSource) -> None:
    """Serve standard input and output until the editor ends the session. Raises HearthError if a cluster does not answer."""
    server = make_server(source)
    # Anything that prints would break the protocol, so standard output now is standard error.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(format="hearth lsp: %(message)s", stream=sys.stderr)
    # Its messages contain the texts of files.
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)
    # A large file creates many nodes at once, and almost none of them is garbage.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    server.start_io(sys.stdin.buffer, replies)
