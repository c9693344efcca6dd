"""The kopf side of the process: handlers that pass on what kopf observes, and the supervisor that runs them.

Lower layers decide; a handler is shorter than fifteen lines.
"""
