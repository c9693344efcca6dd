"""Texts that people read: notation of times, lists of names, and characters that must be escaped or cut."""
