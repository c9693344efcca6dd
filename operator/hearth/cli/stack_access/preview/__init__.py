"""The requests of `kubectl stack diff`: reads and dry runs."""
