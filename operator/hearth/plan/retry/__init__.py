"""Classes of API errors, backoff, and the events that trigger an early retry."""
