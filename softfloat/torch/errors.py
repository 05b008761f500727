"""The one exception of this package's own."""


class EmulationError(RuntimeError):
    """Something ran, or would run, that emulation cannot see or has no rule for."""
