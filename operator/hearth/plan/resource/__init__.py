"""Decides one resource: its status and its next step. Must not know other resources but by their context."""
