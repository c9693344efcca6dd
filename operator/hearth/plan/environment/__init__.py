"""`spec.environment` as rules: breakpoints and restricted actions. Must not know resources' states."""
