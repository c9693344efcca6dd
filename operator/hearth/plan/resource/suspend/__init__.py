"""Suspension of one resource's object, and its return to the state before."""
