"""Other clusters that Stacks use: one connection, discovery and set of caches for each kubeconfig. Must not know Stacks."""
