"""A page of another origin that tries to read the page of `kubectl stack ui` and to send its forms."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator

ATTACK = """<!doctype html><title>attack</title>
<form method=post action="%(target)s/act"><input name=action value=pause><input name=action_token value="%(token)s"></form>
<script>
(async () => {
  const target = "%(target)s", outcome = {read: "nothing", stream: "nothing", frame: "nothing", sent: 0};
  const body = () => new URLSearchParams({action: "pause", action_token: "%(token)s"});
  try { outcome.read = await (await fetch(target, {credentials: "include"})).text(); } catch {}
  for (const mode of ["no-cors", "cors", "no-cors"]) {
    try { await fetch(target + "/act", {method: "POST", mode, credentials: "include", body: body()}); } catch {}
    outcome.sent += 1;
  }
  const frame = document.body.appendChild(document.createElement("iframe"));
  await new Promise((done) => { frame.onload = done; frame.src = target; });
  try { outcome.frame = frame.contentDocument.body.innerText || "nothing"; } catch {}
  await new Promise((done) => {
    const source = new EventSource(target + "/updates", {withCredentials: true});
    source.onerror = () => { source.close(); done(); };
    source.addEventListener("parts", (event) => { outcome.stream = event.data; done(); });
  });
  window.outcome = outcome;
})();
</script>"""


@contextlib.contextmanager
def serve(target: str, token: str) -> Iterator[str]:
    """Serve an attacker's page on another port; give its address."""
    content = (ATTACK % {"target": target, "token": token}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library calls it so
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
