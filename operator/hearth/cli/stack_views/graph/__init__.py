"""A Stack as a graph in layers from left to right: its nodes, their places, and the picture. Pure."""
