"""Execution of steps: fair queues, adaptive concurrency, one request each. Must not know why a step is executed."""
