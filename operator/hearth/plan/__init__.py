"""Decides the next steps from the desired state, the observed state and the time.

Pure: no requests. Time and random jitter are arguments.
"""
