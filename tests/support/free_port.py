"""Finds a free TCP port. Imports nothing of Hearth, so that the attack tests can use it with an older operator."""

from __future__ import annotations

import contextlib
import random
import socket

PORTS = range(20_000, 32_768)
"""Ports that Linux never uses for outgoing connections, which could take a free port before its listener does."""


def find_free_port() -> int:
    """Find a port without a listener. Two processes that ask at the same time rarely get the same."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
