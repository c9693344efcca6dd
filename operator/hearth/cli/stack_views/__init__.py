"""Computes the output and the writes of `kubectl stack` from plain objects.

Pure: no requests, no clock and no terminal.
"""
