"""HTTP to the API server: connections, requests, answers, errors. Must not know watches or caches."""
