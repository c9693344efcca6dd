"""`kubectl stack ui`: Stacks in a browser, served on loopback with the user's own credentials."""
