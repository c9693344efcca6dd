"""Evaluates expressions in processes of their own, within limits of time and memory."""
