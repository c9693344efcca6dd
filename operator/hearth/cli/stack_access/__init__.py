"""The requests of `kubectl stack`, sent with the credentials of its user. Must not know how anything is shown."""
