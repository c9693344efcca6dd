"""All decisions: (desired, observed, now) → next steps, what blocks them, when to plan again. Pure."""
