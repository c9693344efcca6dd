"""Observability of the process: logs, metrics, and the HTTP server for probes and scrapers.

Only the wiring uses it; it knows no Stack, no cluster and no kopf.
"""
