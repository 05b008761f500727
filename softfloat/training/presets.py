"""The named recipes, each with its source; and policies from names and from options of the command line.

Sources: Gupta et al., Deep Learning with Limited Numerical Precision (2015); Micikevicius et al., Mixed Precision
Training (2018); Wang et al., Training Deep Neural Networks with 8-bit Floating Point Numbers (2018); Zamirai et al.,
Revisiting BFloat16 Training (2020); Micikevicius et al., FP8 Formats for Deep Learning (2022); NVIDIA, Transformer
Engine (delayed scaling).
"""

from dataclasses import fields, replace

from softfloat.formats import as_format
from softfloat.training.policy import PASSES, ROLES, Policy


def _everywhere(fmt, **changes):
    return {**dict.fromkeys(ROLES, fmt), **changes}


def _half_precision():
    mixed = {**dict.fromkeys(PASSES, "binary16"), "master": "binary32", "loss_scale": "dynamic"}
    operands = dict.fromkeys(("weights", "activations", "errors"), "tf32")
    return [
        Policy("fp32", source="IEEE binary32 everywhere: the reference"),
        Policy("tf32", **operands, master="binary32",
               source="NVIDIA A100 (2020): operands of products in tf32"),
        Policy("pure_binary16", **_everywhere("binary16"), source="binary16 everywhere"),
        Policy("pure_bfloat16", **_everywhere("bfloat16"), source="bfloat16 everywhere"),
        Policy("bfloat16_stochastic", **_everywhere("bfloat16", update_rounding="stochastic"),
               source="bfloat16 everywhere, w + dw rounded stochastically (Zamirai et al. 2020)"),
        Policy("bfloat16_kahan", **_everywhere("bfloat16", kahan=True),
               source="bfloat16 everywhere, w + dw compensated by Kahan's sum (Zamirai et al. 2020)"),
        Policy("mixed_binary16", **mixed, source="Micikevicius et al. (2018)"),
        Policy("mixed_bfloat16", **dict.fromkeys(PASSES, "bfloat16"), master="binary32",
               source="Micikevicius et al. (2018), with bfloat16: no loss scale needed"),
    ]  # fmt: skip


def _eight_bits():
    half = as_format("e6m9")  # (1, 6, 9) of Wang et al.
    return [
        Policy("fp8_hybrid", weights="float8_e4m3fn", activations="float8_e4m3fn",
               errors="float8_e5m2", logits="bfloat16", master="binary32", saturate=True,
               scaling="delayed", amax_history=1024, margin=0,
               source="OCP FP8, E4M3 (fn) forward and E5M2 backward (Micikevicius et al. 2022), scaled "
               "by the largest magnitudes of the last 1024 steps (Transformer Engine)"),
        Policy("fp8_current", weights="float8_e4m3fn", activations="float8_e4m3fn",
               errors="float8_e5m2", logits="bfloat16", master="binary32", saturate=True,
               scaling="current",
               source="as fp8_hybrid, each tensor scaled by its own largest magnitude"),
        Policy("fp8_chunked",
               **{**dict.fromkeys(PASSES, "float8_e5m2"), "logits": half},
               **dict.fromkeys(("optimizer", "update", "master"), (half, "stochastic")),
               accumulator=half, product="exact", block=64, loss_scale=1000,
               source="FP8 (1,5,2) tensors, sums in (1,6,9) in chunks of 64, stochastic updates in (1,6,9), loss "
               "scale 1000 (Wang et al. 2018), who keep the last layer in (1,6,9): use overrides for that"),
    ]  # fmt: skip


def _presets():
    fixed = Policy(
        "fixed_point",
        **_everywhere("Q3.12", rounding="stochastic", update_rounding="stochastic"),
        source="16 bits, 12 of them fractional, rounded stochastically (Gupta et al. 2015)",
    )
    return {recipe.name: recipe for recipe in (*_half_precision(), *_eight_bits(), fixed)}


PRESETS = _presets()
DEFAULT_RECIPES = (
    "fp32",
    "pure_binary16",
    "pure_bfloat16",
    "bfloat16_stochastic",
    "mixed_binary16",
    "fp8_hybrid",
)


def as_policy(recipe):
    """The Policy of that name, or the Policy given. Raises ValueError that lists the names."""
    if isinstance(recipe, Policy):
        return recipe
    name = str(recipe).strip().replace("-", "_")
    if name in PRESETS:
        return PRESETS[name]
    raise ValueError(f"unknown recipe {recipe!r}; known: {', '.join(PRESETS)}")


def custom_policy(name="custom", **options):
    """A Policy from options, those that are None left out, as the command line has them.

    What is not given follows what is: logits the activations; without a master copy, the optimizer's state and the
    update the weights; update_rounding the rounding.
    """
    given = {key: value for key, value in options.items() if value is not None}
    known = [f.name for f in fields(Policy) if f.name != "name"]
    for key in given:
        if key not in known:
            raise TypeError(f"a policy has no {key!r}; known: {', '.join(known)}")
    given.setdefault("logits", given.get("activations"))
    if "master" not in given:
        for role in ("optimizer", "update"):
            given.setdefault(role, given.get("weights"))
    if "update_rounding" not in given and "rounding" in given:
        given["update_rounding"] = given["rounding"]
    return replace(Policy(name), **given)
