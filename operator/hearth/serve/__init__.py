"""Observability of the process: logs, metrics, traces, and the HTTP server for probes and scrapers."""
