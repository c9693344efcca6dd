"""Texts that people read: their notation of times, lists of names, and what they must not contain."""
