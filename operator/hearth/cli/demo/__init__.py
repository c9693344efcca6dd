"""What `hearth demo` shows: a local operator, one Stack converging, suggestions. Must not know how the operator works."""
