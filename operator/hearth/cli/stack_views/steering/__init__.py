"""What verbs write, and what is waited for."""
