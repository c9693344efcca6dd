"""The controller of StackDefinitions: revisions, the kind, and the rollout to its instances."""
