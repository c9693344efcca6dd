"""Converts manifests and the formats of other tools to Stacks. Works on text only and never talks to a cluster."""
