"""HTTPS side of admission: certificates, webhook configurations, and the server that the API server calls."""
