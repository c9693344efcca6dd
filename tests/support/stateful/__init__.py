"""The random test of targets: templates, the model of the desired state, and sessions that compare it with the
operator.
"""
