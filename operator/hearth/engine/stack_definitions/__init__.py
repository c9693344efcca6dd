"""The controller of StackDefinitions: their revisions, their kinds, and the rollout to their instances."""
