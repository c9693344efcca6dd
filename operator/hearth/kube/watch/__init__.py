"""List and watch with recovery from every server failure."""
