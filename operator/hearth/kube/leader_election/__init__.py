"""Leader election with Leases."""
