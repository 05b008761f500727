"""Accuracy studies: what rounding does to sums, products and algorithms, measured, beside what theory says.

>>> from softfloat import analysis
>>> analysis.associativity("float8_e5m2").differ
423284

Each study is one call. It returns a Study: its facts and arrays are attributes, `.table()` is text, `.plot(path)` a
figure with the theoretical bound beside the measurement (needs matplotlib), `.to_json()` and `.to_csv()` are for other
programs, and `.caption` says what was run, with seeds, numbers of trials and confidence levels.

References are exact: `exact_sum` and `exact_dot` round once, at the end, to any format.
"""

from softfloat.analysis.algebra import associativity, distributivity
from softfloat.analysis.catalogue import STUDIES, study
from softfloat.analysis.dynamics import euler, logistic_map, updates
from softfloat.analysis.exact import exact_dot, exact_sum
from softfloat.analysis.fixed_point import fixed_point_sr
from softfloat.analysis.generators import ill_conditioned_dot, ill_conditioned_sum
from softfloat.analysis.gradients import loss_scaling
from softfloat.analysis.growth import dot_backward, harmonic, matvec_backward, stagnation
from softfloat.analysis.matrices import (
    accumulator_width,
    lu,
    lu_backward,
    matmul_block,
    matmul_engine,
    refinement,
    residual_error,
    solve_lu,
)
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
from softfloat.analysis.orders import gamma, order_sweep
from softfloat.analysis.result import Study, Tracker, tracked
from softfloat.analysis.reveal import reveal_order, reveal_orders
from softfloat.analysis.roundings import double_rounding, sr_bias, sr_sums
from softfloat.analysis.statistics import mean_interval, wilson
from softfloat.analysis.summation import (
    chunked_dot,
    condition_sweep,
    dot_by,
    sum_algorithms,
    sum_by,
)

__all__ = [
    "STUDIES",
    "Study",
    "Tracker",
    "absolute_error",
    "accumulator_width",
    "associativity",
    "chunked_dot",
    "condition_sweep",
    "digits",
    "distributivity",
    "dot_backward",
    "dot_backward_error",
    "dot_by",
    "dot_condition",
    "double_rounding",
    "euler",
    "exact_dot",
    "exact_sum",
    "fixed_point_sr",
    "gamma",
    "harmonic",
    "ill_conditioned_dot",
    "ill_conditioned_sum",
    "logistic_map",
    "loss_scaling",
    "lu",
    "lu_backward",
    "matmul_block",
    "matmul_engine",
    "matvec_backward",
    "mean_interval",
    "order_sweep",
    "refinement",
    "relative_error",
    "residual_error",
    "reveal_order",
    "reveal_orders",
    "solve_lu",
    "sr_bias",
    "sr_sums",
    "stagnation",
    "study",
    "sum_algorithms",
    "sum_backward_error",
    "sum_by",
    "sum_condition",
    "tracked",
    "ulp_error",
    "updates",
    "wilson",
]
