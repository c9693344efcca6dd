"""HTTP to the API server: connections, requests, responses, errors. Must not know watches or caches."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
"""The content type of all but patches."""
