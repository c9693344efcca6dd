"""Commands that change a Stack or wait for it."""
