"""Messages about drift: who owns the lost fields, and what a repair reverts. Must not decide anything."""
