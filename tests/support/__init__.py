"""Shared parts of the tests: an in-memory cluster, virtual time, and stories that run on it and on a real API
server.
"""
