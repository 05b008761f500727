"""Every study at a size that takes no time: what the tests of results, of the command and of its page share."""

from softfloat import analysis

QUICK = {  # small sizes of every study
    "associativity": {"fmt": "float6_e3m2fn"},
    "distributivity": {"fmt": "float6_e3m2fn"},
    "order_sweep": {"n": 30, "trials": 100},
    "reveal_order": {"n": 16},
    "harmonic": {"fmt": "bfloat16,float8_e4m3fn"},
    "stagnation": {"n": 300, "trials": 3},
    "matvec_backward": {"n": 100, "rows": 5, "trials": 2},
    "dot_backward": {"n": 100, "trials": 2},
    "sum_algorithms": {"fmt": "binary16", "n": 300, "trials": 2},
    "chunked_dot": {"n": 1024, "trials": 3},
    "condition_sweep": {"points": 4, "n": 20, "trials": 2},
    "sr_bias": {"bits": [2, 3]},
    "sr_sums": {"n": 40, "trials": 10},
    "double_rounding": {"fmt": "float6_e3m2fn"},
    "euler": {"n": 4, "trials": 4},
    "updates": {"n": 20, "trials": 10},
    "matmul_block": {"n": 64, "size": 2, "blocks": [1, 8, 64]},
    "logistic_map": {"fmt": "bfloat16,binary16", "n": 20},
    "matmul_engine": {"n": 256, "size": 3},
    "accumulator_width": {"n": 64, "bits": [6, 10], "size": 3},
    "lu_backward": {"n": 8, "trials": 2},
    "refinement": {"n": 10, "steps": 3},
    "loss_scaling": {"n": 1000},
    "fixed_point_sr": {"fmt": "Q7.8", "n": 1, "hidden": [4]},
}


def quick(name, **more):
    return analysis.study(name).run(**{**QUICK[name], **more})
