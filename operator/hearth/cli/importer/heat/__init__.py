"""Heat templates (HOT) and their environments as Stacks."""
