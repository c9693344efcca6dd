"""HTTP client for the API server: connections, requests, responses and errors."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
"""The content type of all requests except patches."""
