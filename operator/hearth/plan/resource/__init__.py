"""Plans one resource: its status and its next step.

Other resources are visible only through the `ResourceContext`.
"""
