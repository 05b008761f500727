"""softfloat: arithmetic in any floating-point format, exact and fast, on NumPy arrays and in compiled kernels."""

from softfloat.backends.threads import get_num_threads, set_num_threads
from softfloat.comparison import *  # noqa: F403
from softfloat.fixed_point import FixedPoint
from softfloat.format import Format, finfo
from softfloat.formats import *  # noqa: F403  (the named formats, as_format, formats, p3109)
from softfloat.functional import *  # noqa: F403
from softfloat.rounding import Rounding
from softfloat.status import status

__version__ = "0.1.0"
