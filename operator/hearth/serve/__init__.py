"""What the process shows of itself: logs, metrics, and the HTTP server for probes and scrapers.

Used by the wiring alone; knows no Stack, no cluster and no kopf.
"""
