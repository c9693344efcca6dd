"""Review of what users write before the API server stores it, by the rules of the engine."""
