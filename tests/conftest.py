"""What every test may ask for; the fixtures themselves are in `support/`."""

pytest_plugins = ["support.controlplane"]
