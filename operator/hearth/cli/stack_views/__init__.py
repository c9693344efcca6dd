"""What `kubectl stack` shows and writes, computed from plain objects. Pure: no requests, no clock, no terminal."""
