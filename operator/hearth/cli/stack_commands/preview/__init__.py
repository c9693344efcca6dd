"""`kubectl stack diff`."""
