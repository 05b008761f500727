"""Import time and first calls, each in a fresh process."""

import os
import subprocess
import sys
import tempfile

from bench.timing import Row

IMPORT = """
import time, numba
start = time.perf_counter()
import softfloat
print(time.perf_counter() - start)
"""
FIRST = """
import time, numpy, numba, softfloat
x = numpy.ones(1000, numpy.float32)
start = time.perf_counter()
softfloat.quantize(x, "bfloat16")
print(time.perf_counter() - start)
"""


def _seconds(script, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def rows():
    """Seconds; the smallest of several processes."""
    with tempfile.TemporaryDirectory() as folder:
        imports = sorted(_seconds(IMPORT, folder) for _ in range(5))
        yield Row(
            "import softfloat over numba", "s", imports[0], imports[0], imports[-1], 0.1, True
        )
        cached = []
        fresh = []
        for j in range(3):
            place = os.path.join(folder, str(j))
            os.mkdir(place)
            fresh.append(_seconds(FIRST, place))
            cached.append(_seconds(FIRST, place))
        yield Row("first call, fresh install", "s", min(fresh), min(fresh), max(fresh), 1.5, True)
        yield Row("first call, cached", "s", min(cached), min(cached), max(cached), 0.3, True)
