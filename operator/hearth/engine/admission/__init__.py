"""Review of Stacks, HealthMarks and StackSnapshots before the API server stores them, by the rules of the engine."""
