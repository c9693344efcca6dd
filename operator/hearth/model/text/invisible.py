"""Characters that hide or reorder other characters, so that text looks different than it is."""

from __future__ import annotations

from typing import Final

INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufffb"
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Ranges for the brackets of a pattern. Source: Default_Ignorable_Code_Point of Unicode 16, the separators of lines and
paragraphs, and the marks of annotations."""
