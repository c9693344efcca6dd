"""What `hearth demo` is made of: it installs, starts, applies and shows, and ends what it started."""
