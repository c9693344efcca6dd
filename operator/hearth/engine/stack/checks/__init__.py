"""Requested checks of one Stack: its objects compared with what the API server stores."""
