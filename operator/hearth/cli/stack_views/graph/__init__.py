"""A Stack as a graph in layers from left to right: nodes, layout and drawing."""
