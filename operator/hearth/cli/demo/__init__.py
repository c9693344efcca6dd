"""`hearth demo`: a local operator, one Stack that converges, suggestions. Must not know how the operator works."""
