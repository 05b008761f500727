"""Accuracy studies."""

from softfloat.analysis.exact import exact_dot, exact_sum
from softfloat.analysis.measures import (
    absolute_error,
    digits,
    dot_backward_error,
    dot_condition,
    relative_error,
    sum_backward_error,
    sum_condition,
    ulp_error,
)

__all__ = [
    "absolute_error",
    "digits",
    "dot_backward_error",
    "dot_condition",
    "exact_dot",
    "exact_sum",
    "relative_error",
    "sum_backward_error",
    "sum_condition",
    "ulp_error",
]
