"""Executes steps, with fair queues and adaptive concurrency."""
