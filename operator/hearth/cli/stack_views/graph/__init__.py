"""A Stack as a graph in layers from left to right: what it shows, where each part lies, and the picture. Pure."""
