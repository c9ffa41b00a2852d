"""Settings for every test."""

import re
import signal

import pytest
from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: no deadline per example, and no complaint that making examples is slow.
settings.register_profile("moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")

# A shell lets what it starts in the background ignore Ctrl-C, and programs inherit that: those under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LAST_FAILED = "cache/lastfailed"
WORKERS_GROUP = re.compile(r"@[\w-]+$")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Workers add their group to the names of what failed; pytest would not find these again (`--last-failed`)."""
    if getattr(config, "cache", None) is None or hasattr(config, "workerinput"):
        return
    failed: dict[str, bool] = config.cache.get(LAST_FAILED, {})
    if any(WORKERS_GROUP.search(name) for name in failed):
        config.cache.set(LAST_FAILED, {WORKERS_GROUP.sub("", name): True for name in failed})
