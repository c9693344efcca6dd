"""Runs passes: takes what `hearth.plan` decides to the ports. Async; knows no HTTP and no kopf."""
