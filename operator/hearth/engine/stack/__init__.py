"""The reconciler of one Stack and its helpers. Must not decide: `hearth.plan` does."""
