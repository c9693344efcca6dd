"""Breakpoints of one Stack: stops reported, requests to continue obeyed."""
