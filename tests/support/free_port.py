"""A free TCP port. Imports nothing of Hearth, so that the attack tests may use it with an older operator."""

from __future__ import annotations

import contextlib
import random
import socket

PORTS = range(20_000, 32_768)
"""Those that Linux gives no outgoing connection, which might take a free one before its listener does."""


def find_free_port() -> int:
    """Find a port on which nothing listens, which two processes that ask at the same time hardly share."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
