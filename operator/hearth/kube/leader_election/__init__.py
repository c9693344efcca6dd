"""Leader election by Leases. Must not know what the leader does."""
