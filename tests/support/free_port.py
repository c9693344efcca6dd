"""A free TCP port. Imports nothing of Hearth, so that the attack tests may use it with an older operator."""

from __future__ import annotations

import socket


def find_free_port() -> int:
    """Find a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
