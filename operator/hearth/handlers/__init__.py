"""kopf handlers, which pass events on to callbacks, and the supervisor that runs kopf.

Handlers make no decisions and have fewer than fifteen lines.
"""
