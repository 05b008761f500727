"""Matrix engines: recorded results of hardware, and an independent model in exact fractions."""

import dataclasses
import json

import numpy as np
import pytest
from helpers import DATA, NAMED, assert_same_bits, values_of

import softfloat as sf
from softfloat import engines

RECORDED = DATA / "engines" / "recordings.npz"
STORED = np.load(RECORDED)
META = json.loads(STORED["meta_json"].tobytes())
FORMATS = {"e4m3": NAMED["e4m3fn"], "e5m2": NAMED["e5m2"], "bf16": NAMED["bfloat16"]}
FORMATS |= {"fp16": NAMED["binary16"], "tf32": NAMED["binary32"]}
MACHINES = ("V100", "A100", "A2", "Ada", "L40S", "H100", "H200", "B200")
DOTS = sorted({tuple(key.split("/")[1:3]) for key in STORED.files if key.startswith("hw/")})


def decoded(codes, fmt):
    return values_of(FORMATS[fmt], codes).astype(np.float32)


def dots(a, b, c, fmt, engine):
    """One inner product per row, as a batch."""
    found = sf.matmul(a[:, None, :], b[:, :, None], fmt, c=c[:, None, None], engine=engine)
    return found[:, 0, 0]


def recording(machine, fmt):
    a, b = (decoded(STORED[f"hw/{machine}/{fmt}/{x}"], fmt.lower()) for x in "ab")
    return a, b, STORED[f"hw/{machine}/{fmt}/c"].view(np.float32)


def preset(machine, fmt, accumulator):
    """The preset that stands for a recording."""
    narrow = fmt in ("E4M3", "E5M2")
    name = f"{machine.lower()}_{'fp8' if narrow else fmt}"
    hopper = machine in ("H100", "H200")
    if narrow and (machine == "B200" or (hopper and accumulator == "fp16")):
        name += "_mma"
    return getattr(engines, name + "_fp16" * (accumulator == "fp16"))


@pytest.mark.parametrize(("machine", "fmt"), DOTS)
def test_recorded_dots_with_binary32_accumulator(machine, fmt):
    a, b, c = recording(machine, fmt)
    if machine in ("H100", "H200") and fmt in ("E4M3", "E5M2"):
        c = np.zeros_like(c)  # recorded so
    got = dots(a, b, c, sf.binary32, preset(machine, fmt, "fp32"))
    want = STORED[f"hw/{machine}/{fmt}/d_fp32"].astype(np.uint32).view(np.float32)
    assert_same_bits(got, want)


@pytest.mark.parametrize(
    ("machine", "fmt"), [d for d in DOTS if "hw/{}/{}/d_fp16".format(*d) in STORED.files]
)
def test_recorded_dots_with_binary16_accumulator(machine, fmt):
    a, b, c = recording(machine, fmt)
    c = np.asarray(sf.quantize(c, sf.binary16))
    got = dots(a, b, c, sf.binary16, preset(machine, fmt, "fp16"))
    assert_same_bits(got, STORED[f"hw/{machine}/{fmt}/d_fp16"].astype(np.uint16).view(np.float16))


@pytest.mark.parametrize("case", META["mmaemu_cases"], ids=lambda case: case["key"])
def test_recorded_products_with_promotion_and_split(case):
    base = engines.h100_fp8 if case["engine"] == "hopper" else engines.ada_fp8
    runs = "contiguous" if case["engine"] == "hopper" else "interleaved"
    engine = dataclasses.replace(
        base,
        promote=None if case["fast"] else 128,
        split=case["S"],
        split_tile=128 if case["engine"] == "hopper" else 64,
        split_runs=runs,
        split_order="pairwise" if case["scheme"] == "pairwise" else "serial",
    )
    a = decoded(STORED[case["key"] + "/a"], case["fa"])
    b = decoded(STORED[case["key"] + "/b"], case["fb"])
    got = sf.matmul(a, b.T, sf.binary32, engine=engine)
    assert_same_bits(got, STORED[case["key"] + "/d"].astype(np.uint32).view(np.float32))


@pytest.mark.parametrize("kind", ["unit", "wide", "low", "any"])
def test_recorded_vdpbf16ps(kind):
    with np.load(DATA / "engines" / "vdpbf16ps.npz") as stored:
        a, b = (decoded(stored[f"{kind}/{x}"], "bf16") for x in "ab")
        c, d = (stored[f"{kind}/{x}"].view(np.float32) for x in "cd")
    assert_same_bits(dots(a, b, c, sf.binary32, engines.avx512_bf16), d)
