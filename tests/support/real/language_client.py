"""An editor: speaks the Language Server Protocol to a real server, over its standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE_SECONDS = 300
"""Seconds for a whole session, which the tests of a module share: ten times its usual length on a busy machine."""
CURSOR = "‸"
"""Marks the position of the cursor in the text of a test."""
HEARTH = (sys.executable, "-m", "hearth", "lsp")
"""The command of Hearth's own language server."""


class LanguageClient:
    """One session. Positions are in UTF-16 units, as in most editors, or in UTF-8 units, as in Neovim."""

    def __init__(
        self, *arguments: str, folder: Path, is_utf8: bool = False, server: Sequence[str | Path] = HEARTH
    ) -> None:
        self.process = subprocess.Popen(
            [*server, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
        )
        self.errors = ""
        self._last = 0
        self._published: list[dict[str, Any]] = []
        self._patience = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        self._patience.start()
        self._is_utf8 = is_utf8
        capabilities = {"general": {"positionEncodings": ["utf-8", "utf-16"]}} if is_utf8 else {}
        self.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities=capabilities)
        self.tell("initialized")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._patience.cancel()

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request, or its error."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        while "method" in (message := self._receive()) or message.get("id") != self._last:
            pass
        return message.get("error") or message.get("result")

    def ask_at(self, method: str, uri: str, text: str, **params: Any) -> Any:
        """Open or replace a text, and return the response at its cursor."""
        before, _, after = text.partition(CURSOR)
        self.write(uri, before + after)
        lines = before.replace("\r\n", "\n").split("\n")
        encoding, unit = ("utf-8", 1) if self._is_utf8 else ("utf-16-le", 2)
        units = len(lines[-1].encode(encoding, "surrogatepass")) // unit
        position = {"line": len(lines) - 1, "character": units}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri}, position=position, **params)

    def complete(self, uri: str, text: str) -> list[str]:
        """The words that can stand at the cursor."""
        found = self.ask_at("completion", uri, text) or ()
        return [item["label"] for item in (found["items"] if isinstance(found, dict) else found)]

    def write(self, uri: str, text: str) -> None:
        """Open a text."""
        self.tell("textDocument/didOpen", textDocument={"uri": uri, "languageId": "yaml", "version": 1, "text": text})

    def wait_diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """The next findings in a file."""
        while True:
            found = next((each for each in self._published if each["uri"] == uri), None)
            if found is not None:
                self._published.remove(found)
                return list(found["diagnostics"])
            self._receive()

    def end(self) -> int:
        """End the session as an editor does; return the exit code."""
        self.ask("shutdown")
        self.tell("exit")
        _, errors = self.process.communicate()
        self.errors = errors.decode()
        return self.process.returncode

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (header := self.process.stdout.readline()).strip():
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self._published.append(message["params"])
        elif "method" in message and "id" in message:  # a question of the server
            self._send({"id": message["id"], "result": None})
        return message
