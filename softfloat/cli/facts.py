"""Facts about formats and about numbers in them, as plain dictionaries: what --json prints.

Every figure is exact: numbers are read as fractions, rounded once by the package, and compared as
fractions.
"""

import math
import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from softfloat.fixed_point import FixedPoint
from softfloat.format import SPECIALS, SUBNORMALS, Format
from softfloat.formats import as_format, formats
from softfloat.functional import decode, encode
from softfloat.operands import exact_parts
from softfloat.status import status

SMALL = 8  # bits of the widest format whose values are listed
MINUS = "\N{MINUS SIGN}"
FLAGS = ("inexact", "underflow", "overflow", "invalid")


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why, and what can."""


# ---------------------------------------------------------------- reading arguments
_FIXED = re.compile(r"(u?)q(\d{1,3})\.(\d{1,3})$", re.IGNORECASE)
_HEX = re.compile(r"([+-]?)0x([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d{1,6}))?$")


def read_number(text):
    """The number that `text` writes, unrounded: a Fraction, or a float if zero, infinite or NaN."""
    word = text.strip().lower().replace(MINUS, "-")
    if word.startswith("--"):
        raise UsageError(f"{text} stands behind --, where only numbers can; put options before --")
    found = _HEX.match(word)
    if found and found[2] + found[3]:
        sign, whole, part, power = found.groups()
        value = Fraction(int(whole + part, 16)) * Fraction(2) ** (int(power or 0) - 4 * len(part))
        value = -value if sign == "-" else value
        return value or (-0.0 if sign == "-" else 0.0)
    try:
        value = exact_parts(word)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    return Fraction(value) if isinstance(value, float) and math.isfinite(value) and value else value


def read_format(text):
    """The Format that `text` names: as_format's words, and fields after colons (e6m9:bias=20)."""
    text = text.strip()
    if _FIXED.match(text):
        raise UsageError(f"{text} is a fixed-point format; give floating-point ones, such as e5m2")
    name, *fields = text.split(":")
    try:
        fmt = as_format(name)
        if not fields:
            return fmt
        given = dict(_read_field(field) for field in fields)
        kept = {key: getattr(fmt, key) for key in ("specials", "subnormals", "signed")}
        if given.get("specials", fmt.specials) == fmt.specials:
            kept["bias"] = fmt.bias
        return Format(fmt.exponent_bits, fmt.mantissa_bits, name=text, **(kept | given))
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def read_tensor_format(text):
    """A format of `softfloat train`: as read_format, fp32, and fixed point: Q3.12, UQ8.0; or a pair with a rounding."""
    words = text.split()
    if len(words) == 2:
        return read_tensor_format(words[0]), words[1]
    found = _FIXED.match(text.strip())
    if not found:
        return text if text.strip().lower() in ("none", "fp32") else read_format(text)
    try:
        return FixedPoint(int(found[2]), int(found[3]), signed=not found[1])
    except ValueError as error:
        raise UsageError(str(error)) from None


def _read_field(text):
    key, _, value = text.partition("=")
    if key == "bias":
        try:
            return key, int(value)
        except ValueError:
            raise ValueError(f"bias must be an integer, got {value!r}") from None
    truth = {"true": True, "false": False}
    choices = {
        "specials": {word: word for word in SPECIALS},
        "subnormals": truth | {word: word for word in SUBNORMALS if isinstance(word, str)},
        "signed": truth,
    }
    if key not in choices:
        raise ValueError(f"unknown field {key!r}; a format has bias, specials, subnormals, signed")
    if value not in choices[key]:
        raise ValueError(f"{key} must be one of {', '.join(choices[key])}, got {value!r}")
    return key, choices[key][value]


def read_formats(texts):
    """Formats from arguments that may hold several names each, with commas between."""
    names = [name for text in texts for name in text.split(",") if name.strip()]
    return [read_format(name) for name in names]


def read_code(text, fmt):
    """A code of a format from its decimal, 0x or 0b digits."""
    try:
        code = int(text, 0)
    except ValueError:
        raise UsageError(f"a code is an integer such as 0x3c00, 0b101 or 7, got {text!r}") from None
    if not 0 <= code < 1 << fmt.bits:
        raise UsageError(f"codes of {fmt.label} lie in 0..0x{(1 << fmt.bits) - 1:x}, got {text}")
    return code


# ---------------------------------------------------------------- writing numbers
def exact_decimal(value):
    """All digits of a Fraction over a power of two; e notation where zeros would make it long."""
    places = value.denominator.bit_length() - 1
    digits = str(abs(value.numerator) * 5**places)
    sign = "-" if value < 0 else ""
    exponent = len(digits) - 1 - places
    if not -10 <= exponent <= 40:
        digits = digits.rstrip("0")
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}e{exponent:+03d}"
    if not places:
        return sign + digits
    digits = digits.rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def short_decimal(value, digits=6, plain=range(-5, 10)):
    """A Fraction to so many significant digits; `plain`: decimal exponents without e notation."""
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    number = number.normalize(context)
    return f"{number:e}" if number and number.adjusted() not in plain else f"{number:f}"


def _value_text(value):
    if isinstance(value, Fraction):
        return exact_decimal(value)
    return None if value is None else str(value)


def _json_number(value):
    """A Fraction or float as JSON has it: a word for infinity and NaN."""
    number = float(value)
    return number if math.isfinite(number) else str(number)


# ---------------------------------------------------------------- a format
def exponent_of(value):
    """floor(log2(|value|)) of a Fraction that is not zero."""
    value = abs(value)
    e = value.numerator.bit_length() - value.denominator.bit_length()
    return e - 1 if value < Fraction(2) ** e else e


def ulp(value, fmt):
    """The spacing of the format in the binade of a number, were there no largest value."""
    e = fmt.emin if value == 0 else max(exponent_of(value), fmt.emin)
    return Fraction(2) ** (e - fmt.mantissa_bits)


def overflow_threshold(fmt):
    """(t, inclusive): rounding to nearest overflows beyond t, and at t itself if inclusive."""
    largest = fmt.exact(fmt.max_code)
    inclusive = bool(fmt.max_code & 1) or fmt.specials == "scale"
    return largest + ulp(largest, fmt) / 2, inclusive


def overflow_result(fmt):
    """What overflow gives by default: 'infinity', 'NaN' or 'the largest value'."""
    if fmt.has_infinity:
        return "infinity"
    saturates = fmt.specials in ("finite", "p3109_finite") or not fmt.has_nan
    return "the largest value" if saturates else "NaN"


def last_integer(fmt):
    """The largest n such that all integers from 1 to n are values of the format; 0 for none."""
    largest = fmt.exact(fmt.max_code)
    if fmt.smallest_subnormal > 1 or largest < 1:
        return 0
    return min(1 << fmt.precision, int(largest))


def is_e4m3(fmt):
    return (fmt.exponent_bits, fmt.mantissa_bits) == (4, 3)


def e4m3_note(fmt):
    """Which of the formats that are called E4M3 this one is."""
    kinds = {
        "float8_e4m3fn": "OCP's E4M3 (largest 448, no infinity)",
        "float8_e4m3": "the IEEE-style E4M3 (largest 240, with infinity)",
    }
    for name, text in kinds.items():
        if fmt == formats()[name]:
            other = next(n for n in kinds if n != name)
            return f"This is {text}; {kinds[other]} is {other}."
    both = " and ".join(f"{name}, {text}" for name, text in kinds.items())
    return f"One of several E4M3s. The two usual ones are {both}."


def format_notes(fmt):
    """What a newcomer should know before the first use."""
    notes = []
    if is_e4m3(fmt):
        notes.append(e4m3_note(fmt))
    if overflow_result(fmt) == "NaN":
        largest = short_decimal(fmt.exact(fmt.max_code))
        notes.append(
            "Overflow gives NaN, as there is no infinity. With saturate=True (--saturate) it gives "
            f"the largest value, {largest}."
        )
    if fmt.specials == "scale":
        notes.append("The scale of block formats: powers of two. Zero and negatives become NaN.")
    elif not fmt.signed:
        notes.append("Unsigned: there are no negative numbers.")
    if not fmt.has_nan:
        notes.append("There is no code for NaN: encode refuses one.")
    return notes


def format_facts(fmt, values=False):
    """Everything that `softfloat info --json` says about a format."""
    threshold, inclusive = overflow_threshold(fmt)
    facts = {
        "format": fmt.label,
        "repr": repr(fmt),
        "bits": fmt.bits,
        "exponent_bits": fmt.exponent_bits,
        "mantissa_bits": fmt.mantissa_bits,
        "bias": fmt.bias,
        "signed": fmt.signed,
        "specials": fmt.specials,
        "subnormals": fmt.subnormals,
        "precision": fmt.precision,
        "emin": fmt.emin,
        "emax": fmt.emax,
        "largest": fmt.max,
        "smallest_normal": fmt.smallest_normal,
        "smallest_positive": fmt.smallest_subnormal,
        "epsilon": fmt.epsilon,
        "unit_roundoff": fmt.unit_roundoff,
        "integers_up_to": last_integer(fmt),
        "overflow_threshold": exact_decimal(threshold),
        "threshold_overflows": inclusive,
        "overflow_gives": overflow_result(fmt),
        "has_infinity": fmt.has_infinity,
        "has_nan": fmt.has_nan,
        "has_negative_zero": fmt.has_negative_zero,
        "infinity_code": fmt.infinity_code,
        "nan_code": fmt.nan_code,
        "carrier": str(fmt.carrier),
        "notes": format_notes(fmt),
    }
    if values:
        facts["values"] = [_json_number(v) for v in all_values(fmt)]
    return facts


def all_values(fmt):
    """The value of every code of a small format, as floats in the order of the codes."""
    if fmt.bits > SMALL:
        raise UsageError(
            f"--values lists formats of at most {SMALL} bits; {fmt.label} has {fmt.bits} bits. "
            f"To see single values, write: softfloat show --codes CODE --format {fmt.label}"
        )
    return decode(list(range(1 << fmt.bits)), fmt).tolist()


# ---------------------------------------------------------------- a code
def split(code, fmt):
    """(sign bit, exponent field, significand field) of a code; sign bit 0 if unsigned."""
    negative, magnitude = divmod(code, 1 << fmt.magnitude_bits)
    return negative, *divmod(magnitude, 1 << fmt.mantissa_bits)


def kind_of(code, fmt):
    """'nan', 'infinity', 'zero', 'subnormal' or 'normal'."""
    magnitude = code & ((1 << fmt.magnitude_bits) - 1)
    if math.isnan(float(decode(code, fmt))):
        return "nan"
    if magnitude == fmt.infinity_code:
        return "infinity"
    value = fmt.exact(magnitude)
    if value == 0:
        return "zero"
    return "normal" if value >= Fraction(2) ** fmt.emin else "subnormal"


def neighbours(code, fmt):
    """The next values below and above that of a code: Fractions, infinite floats, or None."""
    if kind_of(code, fmt) == "nan":
        return None, None
    negative, magnitude = divmod(code, 1 << fmt.magnitude_bits)
    skips = fmt.subnormals in ("ftz", "grid")  # codes of exponent field 0 all read as zero
    first = 1 << fmt.mantissa_bits if skips else int(fmt.has_zero)
    place = max(magnitude - first + 1, 0)  # 0 is zero, 1 the smallest positive value, and so on

    def at(place):
        reached = abs(place) + first - 1
        if (place < 0 and not fmt.signed) or (place == 0 and not fmt.has_zero):
            return None
        if reached > fmt.max_code:
            return math.copysign(math.inf, place) if reached == fmt.infinity_code else None
        value = fmt.exact(reached) if place else Fraction(0)
        return -value if place < 0 else value

    place = -place if negative else place
    return at(place - 1), at(place + 1)


def formula_of(code, fmt):
    """The number as a binary significand times a power of two, from the fields of its code."""
    negative, field, fraction = split(code, fmt)
    sign = "-" if negative else ""
    kind = kind_of(code, fmt)
    if kind == "nan":
        return "NaN"
    if kind in ("infinity", "zero"):
        return sign + ("0" if kind == "zero" else kind)
    digits = f"{fraction:0{fmt.mantissa_bits}b}".rstrip("0") if fmt.mantissa_bits else ""
    whole = "1" if kind == "normal" else "0"
    exponent = field - fmt.bias if kind == "normal" else fmt.emin
    return f"{sign}{whole}{'.' if digits else ''}{digits}b x 2**{exponent}"


def code_facts(code, fmt):
    """What a code stands for: fields, formula, exact value and neighbours."""
    kind = kind_of(code, fmt)
    negative, field, fraction = split(code, fmt)
    sign = "-" if negative else ""
    if kind == "nan":
        value, text = math.nan, "nan"
    elif kind == "infinity":
        value, text = float(sign + "inf"), sign + "inf"
    else:
        value = fmt.exact(code & ((1 << fmt.magnitude_bits) - 1))
        text = sign + exact_decimal(value)
        value = -value if negative else value
    below, above = neighbours(code, fmt)
    exponents = {"normal": field - fmt.bias, "subnormal": fmt.emin}
    return {
        "format": fmt.label,
        "class": kind,
        "code": code,
        "code_hex": f"0x{code:0{-(-fmt.bits // 4)}x}",
        "bits": {
            "sign": str(negative) if fmt.signed else "",
            "exponent": f"{field:0{fmt.exponent_bits}b}",
            "significand": f"{fraction:0{fmt.mantissa_bits}b}" if fmt.mantissa_bits else "",
        },
        "biased_exponent": field,
        "bias": fmt.bias,
        "exponent": exponents.get(kind),
        "precision": fmt.precision,
        "formula": formula_of(code, fmt),
        "value": text,
        "value_float": -0.0 if text == "-0" else _json_number(value),
        "below": _value_text(below),
        "above": _value_text(above),
    }


# ---------------------------------------------------------------- a number in a format
def number_facts(number, fmt, options):
    """What becomes of an exact number in a format: code_facts of its code, rounding error, flags.

    number : Fraction or float.   options : keyword arguments of `encode`.
    """
    refused = "NaN" if number != number else "negative numbers"
    if not fmt.has_nan and (number != number or (number < 0 and not fmt.signed)):
        notes = [f"there is no code for {refused}"]
        return {"format": fmt.label, "class": None, "code": None, "flags": [], "notes": notes}
    with status() as raised:
        code = int(encode(number, fmt, **options))
    facts = code_facts(code, fmt)
    error = None
    finite = isinstance(number, Fraction) or number == 0
    if finite and facts["class"] not in ("nan", "infinity"):
        exact = Fraction(number)
        error = (Fraction(facts["value"]) - exact) / ulp(exact, fmt)
    facts["error_ulp"] = None if error is None else float(error)
    facts["error"] = None if error is None else _error_text(error)
    facts["flags"] = [flag for flag in FLAGS if getattr(raised, flag)]
    facts["notes"] = _number_notes(number, fmt, facts)
    return facts


def _error_text(error):
    if error == 0:
        return "0 (exact)"
    text = short_decimal(error)
    about = "" if Fraction(text) == error else "about "
    return f"{about}{'+' if error > 0 else ''}{text} ulp"


def _number_notes(number, fmt, facts):
    kind, flags = facts["class"], facts["flags"]
    largest = short_decimal(fmt.exact(fmt.max_code))
    rescue = f"NaN, as there is no infinity (--saturate gives {largest})"
    infinite = isinstance(number, float) and math.isinf(number)
    if "overflow" in flags:
        end = {"nan": rescue, "infinity": "infinity"}.get(kind, "the largest value")
        return [f"overflow, beyond {largest}: {end}"]
    if kind == "nan" and not fmt.signed and number <= 0:
        return [f"there {'are no negative numbers' if number else 'is no zero'}: NaN"]
    if infinite and kind != "infinity":
        return [f"infinite: {rescue if kind == 'nan' else 'the largest value'}"]
    if "underflow" in flags:
        return ["underflow to zero" if kind == "zero" else "underflow: tiny and inexact"]
    return ["subnormal"] if kind == "subnormal" else []
