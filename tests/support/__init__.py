"""What the tests stand on: a cluster in memory, virtual time, and stories that run on it and on a real API server."""
