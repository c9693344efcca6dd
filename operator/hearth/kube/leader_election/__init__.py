"""Leader election with Leases. Must not know what the leader does."""
