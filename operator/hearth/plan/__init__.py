"""Decides everything: (desired, observed, now) → next steps, what blocks them, when to look again. Pure."""
