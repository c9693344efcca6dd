"""Planning of one resource: its status and its next step.

Must not know other resources except through their context.
"""
