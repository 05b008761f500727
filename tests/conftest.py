"""Settings shared by the whole suite: hypothesis profiles, and the marker of the long tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

SLOW_START = [HealthCheck.too_slow, HealthCheck.data_too_large]  # the first call compiles
settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=SLOW_START
)
settings.register_profile(
    "exhaustive", deadline=None, max_examples=1500, suppress_health_check=SLOW_START
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config):
    config.addinivalue_line("markers", "exhaustive: long; left out unless asked for with -m")


def pytest_collection_modifyitems(config, items):
    if config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="exhaustive: run with -m exhaustive")
    for item in items:
        if "exhaustive" in item.keywords:
            item.add_marker(skip)
