"""What every test may ask for; the fixtures themselves are in `support/`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["support.controlplane"]

# A busy machine draws slowly, which says nothing about the code: time never decides whether a test passes.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
