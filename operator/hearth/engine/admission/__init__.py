"""Review of Stacks and HealthMarks before the API server stores them, by the rules of the engine."""
