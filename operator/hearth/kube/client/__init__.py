"""HTTP to the API server: connections, requests, responses, errors. Must not know watches or caches."""
