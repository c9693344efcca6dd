"""The HTTPS side of admission: certificates, the webhook configurations, and the server that the API server calls."""
