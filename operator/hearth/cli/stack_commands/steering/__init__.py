"""Verbs that change a Stack, and waiting."""
