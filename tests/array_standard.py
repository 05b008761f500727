"""What SoftArrays offer of the Python array API standard: the table in docs/arrays.md.

The names are those of version 2025.12; tests/test_array_api.py tries them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One name of the standard: where it is, or None, and where it differs or why it is not there."""

    name: str
    place: str | None
    note: str = ""

    @property
    def offered(self):
        return self.place is not None


OWN = "arange asarray empty eye finfo full linspace ones zeros".split()
CONSTANTS = "e inf nan newaxis pi".split()
INTEGERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()

# Functions that NumPy has under the standard's names.
FUNCTIONS = """
abs acos acosh add all any argmax argmin argsort asin asinh astype atan atan2 atanh broadcast_arrays
broadcast_shapes broadcast_to ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod
cumulative_sum diff divide empty_like equal exp expand_dims expm1 flip floor floor_divide full_like
greater greater_equal hypot imag isfinite isin isinf isnan less less_equal log log10 log1p log2
logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean
meshgrid min minimum moveaxis multiply negative nextafter nonzero not_equal ones_like permute_dims
positive pow prod real reciprocal remainder repeat reshape roll round searchsorted sign signbit sin
sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile
tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where
zeros_like linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.inv linalg.matmul
linalg.matrix_norm linalg.matrix_power linalg.matrix_transpose linalg.outer linalg.qr linalg.slogdet
linalg.solve linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
""".split()

FORMAT = "the data type is a format, dtype="
DIFFERENCES = {
    **dict.fromkeys(OWN, "the data type is a format, fmt="),
    "finfo": "of a format",
    "linspace": "between two numbers; the data type is a format, fmt=",
    **dict.fromkeys(
        "cumulative_prod cumulative_sum prod sum linalg.trace full_like ones_like zeros_like".split(),
        FORMAT,
    ),
    "empty_like": FORMAT + "; zeros",
    "astype": "to a format; to integers and bool, which gives plain NumPy arrays",
    "argsort": "always stable; no descending=",
    "sort": "always stable; no descending=",
    "imag": "real numbers have zeros as their imaginary part",
    "floor_divide": "NaN of an infinite dividend",
    "linalg.matrix_norm": 'ord 1, -1, inf, -inf and "fro"; the others need singular values',
    "linalg.vector_norm": "ord 0, 1, 2, inf and -inf; the others need powers",
}

ABSENT = {
    **dict.fromkeys(
        """bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor""".split(),
        "of integers and truth values in the standard too",
    ),
    **dict.fromkeys("complex64 complex128".split(), "no complex numbers"),
    **dict.fromkeys(
        """can_cast isdtype result_type iinfo __array_namespace_info__""".split(),
        "formats are no dtypes: two of them do not mix, and softfloat.finfo tells what one holds",
    ),
    "__array_api_version__": "no namespace of this version",
    "from_dlpack": "DLPack has no such data types; softfloat.array takes arrays of NumPy",
    **dict.fromkeys(
        """linalg.eigh linalg.eigvalsh linalg.matrix_rank linalg.pinv linalg.svd
        linalg.svdvals""".split(),
        "eigenvalues and singular values: no short sequence of steps defines them",
    ),
    **dict.fromkeys(
        """fft.fft fft.ifft fft.fftn fft.ifftn fft.rfft fft.irfft fft.rfftn fft.irfftn fft.hfft
        fft.ihfft fft.fftfreq fft.rfftfreq fft.fftshift fft.ifftshift""".split(),
        "complex numbers",
    ),
}
ROWS = [
    *(Row(name, f"sf.{name}", DIFFERENCES[name]) for name in OWN),
    *(Row(name, f"np.{name}") for name in CONSTANTS),
    *(Row(name, f"np.{name}", "of plain NumPy arrays, in astype") for name in INTEGERS),
    Row("float32", "sf.float32", "formats among others"),
    Row("float64", "sf.float64", "formats among others"),
    *(Row(name, f"np.{name}", DIFFERENCES.get(name, "")) for name in FUNCTIONS),
    *(Row(name, None, why) for name, why in ABSENT.items()),
]

# ---------------------------------------------------------------- the array object
OPERATORS = [
    *(f"__{i}{name}__" for name in "add floordiv matmul mod mul pow sub truediv".split()
      for i in ("", "i", "r")),
    *"__abs__ __neg__ __pos__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split(),
    *"__bool__ __float__ __int__ __complex__ __getitem__ __setitem__".split(),
]  # fmt: skip
ATTRIBUTES = [
    *(Row(name, "method") for name in OPERATORS),
    *(Row(name, "attribute") for name in "T mT ndim shape size device".split()),
    Row("dtype", "attribute", "the format"),
    Row("to_device", "method", 'to "cpu", where it is, or "cuda": softfloat.cuda.to_device'),
    *(
        Row(name, None, "of integers and truth values in the standard too")
        for name in (
            *(f"__{i}{name}__" for name in "and lshift or rshift xor".split() for i in ("", "i", "r")),
            *("__invert__", "__index__"),
        )
    ),
    Row("__array_namespace__", None, "see above"),
    *(Row(name, None, "DLPack has no such data types; use .to_numpy()")
      for name in ("__dlpack__", "__dlpack_device__")),
]  # fmt: skip
