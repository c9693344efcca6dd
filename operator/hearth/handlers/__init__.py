"""The kopf side of the process: handlers that only enqueue, and the supervisor that runs them.

Lower layers decide; a handler is shorter than fifteen lines.
"""
