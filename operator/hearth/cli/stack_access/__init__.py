"""The requests of `kubectl stack`, sent with the credentials of the user."""
