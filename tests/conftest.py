"""Settings for every test."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no deadline per example, and no complaint that making examples is slow.
settings.register_profile("moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")
