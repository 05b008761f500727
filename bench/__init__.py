"""Benchmarks: ratios taken side by side in one process, each result checked before it is timed."""
