"""Checks of one Stack's objects: requested comparisons with what the API server stores, and reports of unproven ones."""
