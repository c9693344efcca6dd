"""Writing of Stack statuses and Events at a bounded rate. Must not decide their content."""
