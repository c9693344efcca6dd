"""The one error of these programs: something on this machine stands in the way, and the message says what to do."""

from __future__ import annotations


class Impossible(Exception):
    """The person at the keyboard has to act; the text says what, where and the next step."""
