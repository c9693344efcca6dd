"""The kopf side of the process: handlers that only wake, and the frame that runs them.

Lower layers decide; a handler is shorter than fifteen lines.
"""
