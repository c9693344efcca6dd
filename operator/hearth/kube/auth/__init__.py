"""Credentials for an API server, and the addresses that a tenant's may not have. Must not send API requests."""
