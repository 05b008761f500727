"""The command line: what info and show say is exact, what train is given arrives, and errors are one paragraph."""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import softfloat as sf
from softfloat import cli, training
from softfloat.cli import facts

WIDE, NARROW = 200, 80
FORMATS = [
    *sf.formats().values(),
    sf.p3109(8, 3),
    sf.p3109(6, 4, extended=False),
    sf.p3109(8, 5, signed=False),
    sf.Format(5, 2, subnormals="ftz"),
    sf.Format(5, 2, subnormals="grid"),
    sf.Format(4, 3, bias=20),
    sf.Format(3, 0),
    sf.Format(1, 3),
    sf.Format(4, 0, specials="finite"),
    sf.Format(3, 2, signed=False, specials="finite"),
]
SMALL = [fmt for fmt in FORMATS if fmt.bits <= 8]


def by_label(fmt):
    return fmt.label.replace(" ", "-")


@pytest.fixture
def run(capsys, monkeypatch):
    """run(*arguments, width=80) -> (exit code, stdout, stderr) of the command line in this process."""

    def run(*arguments, width=NARROW):
        monkeypatch.setenv("COLUMNS", str(width))
        code = cli.main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def shown(run):
    """shown(*arguments) -> the parsed --json of `softfloat show`, one record for each number and format."""

    def shown(*arguments):
        code, out, err = run("show", "--json", *arguments)
        assert (code, err) == (0, "")
        return [record for entry in json.loads(out) for record in entry["formats"]]

    return shown


# ---------------------------------------------------------------- show
def test_show_0_1_in_binary32_is_what_every_textbook_says(shown):
    (found,) = shown("0.1", "--format", "binary32")
    assert found["value"] == "0.100000001490116119384765625"
    assert found["code_hex"] == "0x3dcccccd"
    assert found["bits"] == {
        "sign": "0",
        "exponent": "01111011",
        "significand": "10011001100110011001101",
    }
    assert found["below"] == "0.0999999940395355224609375"
    assert found["above"] == "0.10000000894069671630859375"
    assert found["error"] == "+0.2 ulp"
    assert found["flags"] == ["inexact"]


def test_show_21_8125_field_by_field(shown):
    (found,) = shown("21.8125", "--format", "binary32")
    assert found["formula"] == "1.01011101b x 2**4"
    assert (found["biased_exponent"], found["bias"], found["exponent"]) == (131, 127, 4)
    assert found["error"] == "0 (exact)" and found["error_ulp"] == 0 and found["flags"] == []


@pytest.mark.parametrize(
    "text", ["0.3", "1/3", "1e-7", "123456789.123456789", "0x1.00000000000001p0"]
)
@pytest.mark.parametrize("fmt", [sf.binary16, sf.bfloat16, sf.binary64, sf.tf32], ids=by_label)
def test_show_error_is_that_of_the_written_number(shown, text, fmt):
    """Not that of the float64 next to it: 0x1.00000000000001p0 has more bits than a float64."""
    exact = {"0x1.00000000000001p0": 1 + Fraction(1, 2**56)}.get(text) or Fraction(text)
    (found,) = shown(text, "--format", fmt.label)
    if "overflow" in found["flags"]:
        assert (found["value"], found["error_ulp"]) == ("inf", None)
        return
    stored = Fraction(found["value"])
    other = Fraction(found["below" if exact < stored else "above"])  # beyond the exact number
    assert abs(stored - exact) <= abs(other - exact)
    assert found["error_ulp"] == float((stored - exact) / abs(stored - other))
    assert ("inexact" in found["flags"]) == (stored != exact)


@pytest.mark.parametrize("fmt", SMALL, ids=by_label)
def test_every_code_is_explained(fmt):
    """value, formula and neighbours of every code agree with decode, over the whole format."""
    values = sf.decode(np.arange(1 << fmt.bits), fmt)
    ordered = sorted({v for v in values.tolist() if v == v})
    for code, value in enumerate(values.tolist()):
        found = facts.code_facts(code, fmt)
        assert float(found["value"]).hex() == float(value).hex() or value != value
        assert (found["class"] == "nan") == (value != value)
        assert int(found["code_hex"], 16) == code
        assert int("".join(found["bits"].values()), 2) == code
        if value != value:
            assert found["below"] is found["above"] is None
            continue
        place = ordered.index(value)
        below = ordered[place - 1] if place else None
        above = ordered[place + 1] if place + 1 < len(ordered) else None
        assert (found["below"] is None) == (below is None)
        assert (found["above"] is None) == (above is None)
        assert below is None or float(found["below"]) == below
        assert above is None or float(found["above"]) == above
        if found["class"] in ("normal", "subnormal"):
            assert evaluate(found["formula"]) == Fraction(value)


def evaluate(formula):
    """The number behind '-1.01b x 2**-3'."""
    digits, power = formula.split("b x 2**")
    whole, _, fraction = digits.lstrip("-").partition(".")
    value = Fraction(int(whole + fraction, 2), 2 ** len(fraction)) * Fraction(2) ** int(power)
    return -value if digits.startswith("-") else value


@pytest.mark.parametrize("words", [("-0.1",), ("--", "-0.1"), ("\N{MINUS SIGN}0.1",)], ids=repr)
def test_show_takes_negative_numbers(run, words):
    code, out, err = run("show", "--json", "--format", "binary16", *words)
    assert (code, err) == (0, "")
    assert json.loads(out)[0]["formats"][0]["value"] == "-0.0999755859375"


def test_show_takes_options_after_negative_numbers(shown):
    found = shown("-inf", "-.5", "-1e-3", "-0", "--format", "e5m2")
    assert [f["value"] for f in found] == ["-inf", "-0.5", "-0.0009765625", "-0"]


@pytest.mark.parametrize(
    ("text", "fmt", "value", "note"),
    [
        ("1000", "float8_e4m3fn", "nan", "overflow, beyond 448: NaN"),
        ("1000", "float8_e4m3", "inf", "overflow, beyond 240: infinity"),
        ("1000", "float4_e2m1fn", "6", "the largest value"),
        ("-inf", "float8_e4m3fn", "nan", "no infinity"),
        ("inf", "float4_e2m1fn", "6", "infinite: the largest value"),
        ("1e-9", "binary16", "0", "underflow to zero"),
        ("1e-7", "binary16", "0.00000011920928955078125", "underflow: tiny and inexact"),
        ("0x1p-24", "binary16", "0.000000059604644775390625", "subnormal"),
        ("-1", "float8_e8m0fnu", "nan", "there are no negative numbers"),
        ("0", "float8_e8m0fnu", "nan", "there is no zero"),
        ("1e99999", "binary64", "inf", "overflow"),
    ],
)
def test_show_says_what_went_wrong(shown, text, fmt, value, note):
    (found,) = shown(text, "--format", fmt)
    assert found["value"] == value
    assert note in found["notes"][0]


@pytest.mark.parametrize("text", ["nan", "-1"])
def test_show_where_there_is_no_code(run, text):
    fmt = "float4_e2m1fn" if text == "nan" else "e3m2:signed=false:specials=finite"
    code, out, _ = run("show", text, "--format", fmt)
    assert code == 0
    assert "there is no code for" in out


def test_show_saturates_on_request(shown):
    assert shown("1000", "--format", "e4m3fn", "--saturate")[0]["value"] == "448"


def test_show_rounds_as_asked(shown):
    up = shown("0.1", "--format", "binary16", "--rounding", "RTP")[0]["value"]
    down = shown("0.1", "--format", "binary16", "--rounding", "toward_zero")[0]["value"]
    assert Fraction(down) < Fraction(1, 10) < Fraction(up)


def test_show_stochastic_gives_number_i_the_word_of_element_i(shown):
    texts = ["0.3"] * 40
    found = shown(*texts, "--format", "e4m3", "--rounding", "SR", "--seed", "5")
    expected = sf.quantize(texts, "e4m3", rounding="stochastic", seed=5)
    assert [f["value_float"] for f in found] == expected.tolist()
    assert len({f["value"] for f in found}) == 2


def test_show_reads_codes(shown):
    found = shown("--codes", "0x38", "56", "0b111000", "--format", "float8_e4m3fn,binary16")
    assert [f["code"] for f in found] == [56] * 6
    assert [f["value"] for f in found[:2]] == ["1", "0.000003337860107421875"]


@pytest.mark.parametrize("width", [40, NARROW, WIDE])
def test_show_fits_the_terminal_and_is_legible_without_colour(run, width):
    names = "binary64,binary32,binary16,bfloat16,float8_e4m3fn"
    code, out, _ = run("show", "0.1", "-21.8125", "1e-320", "--format", names, width=width)
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert "\x1b" not in out
    assert "0 01011 1001100110" in out  # the fields are apart
    assert "0.100000001490116119384765625" in out or width == 40


def test_show_colours_the_fields_on_a_terminal(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, out, _ = run("show", "0.1", "--format", "binary16")
    assert "\x1b[1;31m0" in out and "\x1b[1;32m01011" in out and "\x1b[1;36m1001100110" in out


def test_show_says_which_e4m3_is_meant(run):
    assert "OCP's E4M3 (largest 448, no infinity) is float8_e4m3fn" in joined(
        run("show", "1", "--format", "e4m3")
    )


# ---------------------------------------------------------------- info
def joined(result):
    code, out, err = result
    assert code == 0, err
    return " ".join(out.split())


def test_info_lists_every_named_format(run):
    code, out, _ = run("info")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert set(sf.formats()) <= set(names)
    assert max(map(len, out.splitlines())) <= NARROW
    assert "E4M3 is two formats" in out


def test_info_puts_formats_side_by_side(run):
    code, out, _ = run("info", "binary32", "binary16,bfloat16")
    rows = {line[:17].strip(): line[17:].split() for line in out.splitlines() if line.strip()}
    assert code == 0
    assert rows[""] == ["binary32", "binary16", "bfloat16"]
    assert rows["bias"] == ["127", "15", "127"]
    assert "65504" in rows["largest"]


def test_info_warns_of_nan_on_overflow_where_a_newcomer_looks(run):
    out = joined(run("info", "float8_e4m3fn"))
    assert "overflow gives NaN" in out
    assert "Overflow gives NaN, as there is no infinity. With saturate=True (--saturate)" in out
    assert "This is OCP's E4M3 (largest 448, no infinity); the IEEE-style E4M3" in out


@pytest.mark.parametrize("fmt", FORMATS, ids=by_label)
def test_info_overflow_threshold_is_where_quantize_overflows(fmt):
    threshold, inclusive = facts.overflow_threshold(fmt)
    beyond = threshold * (1 + Fraction(1, 2**60))
    with sf.status() as s:
        sf.quantize(threshold, fmt)
    assert bool(s.overflow) == inclusive
    with sf.status() as s:
        result = float(sf.quantize(beyond, fmt))
    assert s.overflow == 1
    expected = {"infinity": np.inf, "the largest value": fmt.max}.get(facts.overflow_result(fmt))
    assert result == expected or (expected is None and result != result)


@pytest.mark.parametrize("fmt", FORMATS, ids=by_label)
def test_info_integers_up_to_is_the_last_of_an_unbroken_run(fmt):
    n = facts.last_integer(fmt)
    some = list(range(1, n + 1)) if n < 5000 else [n - 2, n - 1, n]
    assert all(Fraction(float(sf.quantize(i, fmt))) == i for i in some)
    following = float(sf.quantize(n + 1, fmt))
    assert (
        following != following or Fraction(following) != n + 1 if np.isfinite(following) else True
    )


def test_info_json_has_the_facts(run):
    code, out, err = run("info", "float8_e4m3fn", "bfloat16", "--json")
    assert (code, err) == (0, "")
    first, second = json.loads(out)
    assert (first["largest"], first["overflow_gives"], first["nan_code"]) == (448.0, "NaN", 127)
    assert (first["overflow_threshold"], first["threshold_overflows"]) == ("464", False)
    assert second["smallest_positive"] == 2.0**-133
    everything = json.loads(run("info", "--json")[1])
    assert [f["format"] for f in everything] == list(sf.formats())


@pytest.mark.parametrize("fmt", [f for f in SMALL if f.name], ids=by_label)
def test_info_values_are_those_of_decode(run, fmt):
    found = json.loads(run("info", fmt.name, "--values", "--json")[1])[0]["values"]
    expected = sf.decode(np.arange(1 << fmt.bits), fmt).tolist()
    assert [float(v).hex() for v in found] == [v.hex() for v in expected]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_info_values_fit_and_name_the_exceptions(run, width):
    code, out, _ = run("info", "float8_e5m2fnuz", "--values", width=width)
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert "but 0x80 is nan in float8_e5m2fnuz" in " ".join(out.split())
    code, out, _ = run("info", "float8_e4m3fn", "float8_e4m3", "--values", width=width)
    assert "but" not in out.splitlines()[-1]
    assert out.count("0x7e") == 1


def test_info_takes_fields_of_a_format(run):
    facts_of = json.loads(
        run("info", "e4m3:bias=11:specials=fnuz", "e5m2:subnormals=ftz", "--json")[1]
    )
    assert facts_of[0]["largest"] == sf.float8_e4m3b11fnuz.max
    assert facts_of[1]["smallest_positive"] == sf.Format(5, 2, subnormals="ftz").smallest_normal


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["shwo"], "show"),
        (["show", "0.1", "--formt", "e5m2"], "--format"),
        (["show", "0.1", "--format", "bflot16"], "'bfloat16'"),
        (["show", "0.1", "--format", ","], "--format is empty"),
        (["show", "0.1", "--format", "e12m3"], "1..11"),
        (["show", "0.1", "--format", "e8m0"], "ambiguous"),
        (["show", "0.1", "--format", "Q3.4"], "fixed-point"),
        (["show", "0.1", "--format", "e5m2:bais=3"], "unknown field 'bais'"),
        (["show", "0.1", "--format", "e5m2:bias=x"], "bias must be an integer"),
        (["show", "0.1", "--format", "e5m2:subnormals=no"], "ftz, grid, normal"),
        (["show", "0.1", "--rounding", "stochstic"], "'stochastic'"),
        (["show", "0.1", "--rounding", "SR"], "needs --seed"),
        (["show", "0.1", "--rounding", "SR", "--seed", "-3"], "--seed"),
        (["show", "0.1", "--rounding", "SR", "--seed", "18446744073709551616"], "2**64"),
        (["show", "zero"], "cannot read 'zero'"),
        (["show", "1/0"], "cannot read '1/0'"),
        (["show", "1e999999999"], "too large"),
        (["show"], "NUMBER"),
        (["show", "--", "1", "--json"], "put options before --"),
        (["show", "--codes", "0x100", "--format", "e4m3"], "lie in 0..0xff"),
        (["show", "--codes", "x", "--format", "e4m3"], "0x3c00"),
        (["info", "e5m2", "--values", "--json", "binary16"], "at most 8 bits"),
        (["info", "--values"], "needs a format"),
        (["train", "--recipes", "fp33"], "fp32"),
        (["train", "--weights", "bflot16"], "'bfloat16'"),
        (["train", "--data", "mnist"], "digits"),
        (["train", "--lr", "-1"], "positive"),
        (["train", "--weights", "Q60.60"], "integer_bits"),
        (["train", "--weights", "e5m2 up"], "rounding"),
        (["train", "--recipes", ","], "no recipe is named"),
        (["train", "--override", "layer1"], "an override is PATTERN FIELD=VALUE"),
        (
            ["train", "--override", "layer1 weight=e5m2"],
            "'weight' cannot be set for 'layer1' alone",
        ),
        (["train", "--override", "layer1 weights=e5m22222"], "e5m22222"),
        (["train", "--override", "layer9 weights=e5m2"], "which is no part of the network"),
        (["train", "--engine", "h100"], "unknown engine 'h100'; known: "),
        (["train", "--block", "64"], "product= and block= go with accumulator="),
        (["train", "--accumulator", "e6m9", "--block", "0"], "block must be an integer in 1"),
        (["train", "--data-dir", "x"], "data_dir is for fashion-mnist"),
    ],
    ids=" ".join,
)
def test_errors_are_one_paragraph_and_exit_code_2(run, arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert says in err
    assert err.count("\n") == 1 and err.startswith("softfloat: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_or_rich_the_extra_is_named(run, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    code, out, err = run("info")
    assert (code, out) == (2, "")
    assert f"needs {missing}" in err and "pip install 'softfloat-numba[cli]'" in err


def test_no_arguments_print_the_help(run):
    code, out, _ = run()
    assert code == 0
    for command in ("info", "show", "train"):
        assert command in out


def test_version(run):
    assert run("--version")[1] == f"softfloat {sf.__version__}\n"


def test_module_runs_and_a_closed_pipe_is_no_error():
    command = f"'{sys.executable}' -m softfloat.cli info | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.startswith("format")


# ---------------------------------------------------------------- train
def test_train_hands_its_options_over(run, monkeypatch):
    training = pytest.importorskip("softfloat.training")
    given = {}
    monkeypatch.setattr(training, "train_command", lambda **options: given.update(options) or 0)
    code, out, err = run(
        *"train --recipes fp32,tf32 --epochs 3 --lr 0.1 --batch 8 --hidden 32,16 --seed 5".split(),
        *"--data fashion-mnist --data-dir images --out runs --json --saturate".split(),
        *"--weights bfloat16 --master fp32 --activations e5m2:bias=9 --errors Q3.12".split(),
        *"--rounding SR --update-rounding RNE --loss-scale 1024 --kahan --block 64".split(),
        *"--accumulator e6m9 --product exact --scaling delayed --amax-history 16 --margin 1".split(),
        *[
            "--update",
            "e5m2 stochastic",
            "--override",
            "layer1 weights=fp32",
            "--override",
            "*:relu a=b",
        ],
    )
    assert (code, out, err) == (0, "", "")
    assert given["figure"] is not None
    assert given["weights"] == sf.bfloat16
    assert given["activations"] == sf.Format(5, 2, bias=9)
    assert (given["errors"].integer_bits, given["errors"].fraction_bits) == (3, 12)
    plain = dict(
        recipes="fp32,tf32", epochs=3, lr=0.1, batch=8, hidden="32,16", seed=5, master="fp32"
    )
    plain |= dict(data="fashion-mnist", data_dir="images", out="runs", as_json=True, saturate=True)
    plain |= dict(
        rounding="SR", update_rounding="RNE", loss_scale="1024", logits=None, scaling=None
    )
    plain |= dict(kahan=True, block=64, accumulator=sf.as_format("e6m9"), product="exact")
    plain |= dict(scaling="delayed", amax_history=16, margin=1, engine=None)
    plain |= dict(
        update=(sf.float8_e5m2, "stochastic"), overrides=["layer1 weights=fp32", "*:relu a=b"]
    )
    assert plain.items() <= given.items()


def test_train_has_an_option_for_every_field_of_a_policy(run):
    code, out, _ = run("train", "--help")
    words = {"overrides": "--override", "saturate": "--saturate", "kahan": "--kahan"}
    for field in training.Policy.__dataclass_fields__:
        if field not in ("name", "source"):
            assert words.get(field, f"--{field.replace('_', '-')}") in out, field


def test_train_options_become_a_policy(run, tmp_path):
    words = "train --epochs 1 --hidden 8 --batch 64 --json --weights bfloat16 --master fp32".split()
    words += (
        "--accumulator e6m9 --product e5m2 --block 16 --kahan --margin 2 --update Q1.20".split()
    )
    words += ["--override", "layer1 weights=fp32, accumulator=none, product=rounded, block=none"]
    code, out, err = run(*words, "--errors", "e5m2 stochastic", "--out", str(tmp_path))
    assert code == 0, err
    found = json.loads(out)[1]["formats"]
    wanted = {"accumulator": "e6m9", "block": 16, "kahan": True, "margin": 2, "update": "Q1.20"}
    wanted |= {"errors": "e5m2 stochastic", "product": "e5m2"}
    assert wanted.items() <= found.items()
    own = {"weights": "binary32", "accumulator": None, "product": "rounded", "block": None}
    assert found["overrides"] == {"layer1": own}


def test_train_passes_the_exit_code_on(run, monkeypatch):
    training = pytest.importorskip("softfloat.training")
    monkeypatch.setattr(training, "train_command", lambda **options: 1)
    assert run("train")[0] == 1


def test_train_json_is_pure_and_files_appear(run, tmp_path):
    pytest.importorskip("sklearn")
    arguments = "train --recipes fp32,pure_bfloat16 --epochs 1 --hidden 8 --json".split()
    code, out, _ = run(*arguments, "--out", str(tmp_path / "runs"))
    assert code == 0
    assert [record["policy"] for record in json.loads(out)] == ["fp32", "pure_bfloat16"]
    assert all({"accuracy", "loss"} <= set(record) for record in json.loads(out))
    assert (tmp_path / "runs" / "training.png").is_file()
