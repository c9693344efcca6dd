"""Leader election with Leases. Must not know the leader's work."""
