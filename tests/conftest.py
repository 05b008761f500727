"""Settings shared by the whole suite: hypothesis profiles and one filter of warnings."""

import os

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
    # What hypothesis imports to report a failing example warns on import.
    config.addinivalue_line("filterwarnings", "ignore:mypy_extensions:DeprecationWarning")
