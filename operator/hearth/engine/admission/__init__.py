"""Reviews Stacks and related objects at admission, by the same rules as the engine."""
