"""Settings for every test."""

from hypothesis import settings

# A busy machine must not fail a test: no deadline per example.
settings.register_profile("moldau", deadline=None)
settings.load_profile("moldau")
