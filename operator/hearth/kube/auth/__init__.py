"""Credentials for an API server: kubeconfig, service account, exec plugins. Must not send API requests."""
