"""`kubectl stack ui`: shows Stacks in a browser. It listens on loopback and uses the credentials of the user."""
