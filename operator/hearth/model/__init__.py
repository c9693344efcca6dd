"""Values and words that every layer shares; nothing in here decides or talks to anyone."""
