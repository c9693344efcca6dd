"""A Stack with its objects, and the tree that shows them."""
