"""Other clusters that Stacks use, each with its own connection, discovery and caches."""
