"""One resource in detail, without sensitive values. Pure."""
