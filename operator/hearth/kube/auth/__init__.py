"""Credentials for an API server, and the addresses that a tenant's API server must not have."""
