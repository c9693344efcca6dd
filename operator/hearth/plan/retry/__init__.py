"""API errors by the reaction they need, backoff, and the events that make an early retry worthwhile."""
