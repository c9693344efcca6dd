"""Sends notifications about Stacks to the receiver that the owner of the installation chose."""
