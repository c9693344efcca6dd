"""The kopf side of the process: handlers that only wake, and the frame that runs them.

Whatever is decided is decided below; a handler is shorter than fifteen lines.
"""
