"""softfloat.torch against scalars: a tiny MLP and a tiny attention in plain loops over fractions.

Nothing here is shared with the package: each operation is exact on rational numbers and then rounded once by the
oracle of the tests. What emulate leaves to the carrier is rounded to binary32 first, as the carrier does; exp is a
series with 200 bits. Zeros have no sign here, so values are compared.
"""

from fractions import Fraction

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")

from torch_networks import LR, MOMENTUM, F  # noqa: E402

import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402

E4M3, E5M2, E8M9 = oracle.Format(4, 3), oracle.Format(5, 2), oracle.Format(8, 9)
# Formats by role, for the policy by name and for the oracle.
NAMED = {
    "one": dict.fromkeys(
        ("weights", "activations", "errors", "weight_gradients", "optimizer", "update", "master",
         "accumulator"), ("bfloat16", oracle.BFLOAT16)),
    "many": {
        "weights": ("float8_e4m3", E4M3), "activations": ("bfloat16", oracle.BFLOAT16),
        "errors": ("float8_e5m2", E5M2), "weight_gradients": ("binary16", oracle.BINARY16),
        "optimizer": ("e8m9", E8M9), "update": ("bfloat16", oracle.BFLOAT16),
        "master": ("binary16", oracle.BINARY16), "accumulator": ("e8m9", E8M9),
    },
}  # fmt: skip


def rounded(fmt, x):
    number = oracle.from_code(fmt, oracle.quantize(fmt, oracle.finite(x)).code)
    return number.signed_value


def exp(x):
    """exp of a fraction to about 200 bits."""
    halvings = 8
    x, term, total = x / 2**halvings, Fraction(1), Fraction(0)
    for n in range(1, 60):
        total += term
        term = Fraction(int(term * x / n * 2**260), 2**260)
    for _ in range(halvings):
        total = Fraction(int(total * total * 2**260), 2**260)
    return total


class Scalars:
    """The operations of a policy on lists of fractions."""

    def __init__(self, name):
        self.formats = {role: fmt for role, (_, fmt) in NAMED[name].items()}

    def __call__(self, role, x):
        """x, computed in the carrier, on the grid of a role; lists element by element."""
        if isinstance(x, list):
            return [self(role, v) for v in x]
        return rounded(self.formats[role], rounded(oracle.BINARY32, x))

    def add(self, x, y):
        return rounded(self.formats["accumulator"], x + y)

    def product(self, a, b):
        """Every product and every sum rounded, in sequence."""
        found = []
        for row in a:
            found.append([])
            for column in turned(b):
                total = Fraction(0)
                for x, y in zip(row, column, strict=True):
                    total = self.add(total, rounded(self.formats["accumulator"], x * y))
                found[-1].append(total)
        return found

    def linear(self, x, w, b):
        y = self.product(x, turned(self("weights", w)))
        b = self("weights", b)
        return self(
            "activations", [[self.add(v, c) for v, c in zip(row, b, strict=True)] for row in y]
        )

    def linear_back(self, e, x, w):
        """(error below, gradient of w, gradient of b)."""
        sums = []
        for column in turned(e):
            total = Fraction(0)
            for v in column:
                total = self.add(total, v)
            sums.append(total)
        below = self("errors", self.product(e, self("weights", w)))
        return below, self.product(turned(e), x), sums

    def softmax(self, x):
        """Of each row, not yet rounded."""
        powers = [[exp(v - max(row)) for v in row] for row in x]
        return [[p / sum(row) for p in row] for row in powers]

    def loss_gradient(self, logits, labels):
        """Of the mean cross entropy."""
        shares = self.softmax(logits)
        return self("errors", [
            [(p - (j == label)) / len(labels) for j, p in enumerate(row)]
            for row, label in zip(shares, labels, strict=True)
        ])  # fmt: skip

    def update(self, weights, gradients, velocities):
        """SGD with momentum."""
        stored = self.formats["master"]
        for name, g in gradients.items():
            g = self("weight_gradients", g)
            if name in velocities:
                v = self("optimizer", each(lambda a: a * Fraction(MOMENTUM), velocities[name]))
                v = self("optimizer", each(lambda a, b: a + b, v, g))
            else:
                v = g
            velocities[name] = v
            change = self("update", each(lambda a: -Fraction(LR) * a, v))
            weights[name] = each(lambda w, d: rounded(stored, w + d), weights[name], change)


def turned(a):
    return [list(column) for column in zip(*a, strict=True)]


def each(function, *values):
    if isinstance(values[0], list):
        return [each(function, *parts) for parts in zip(*values, strict=True)]
    return function(*values)


def fractions(tensor):
    return each(Fraction, tensor.detach().numpy().astype(np.float64).tolist())


def policy_of(name):
    return training.Policy(name, **{role: fmt for role, (fmt, _) in NAMED[name].items()})


def check_training(model, x, y, name, backward, steps=3):
    """Train the model, and fractions: backward(scalars, weights, x, labels) gives gradients by name."""
    weights, velocities = {n: fractions(p) for n, p in model.named_parameters()}, {}
    scalars = Scalars(name)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=MOMENTUM)
    with st.emulate(policy_of(name)):
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    for _ in range(steps):
        gradients = backward(scalars, weights, scalars("activations", fractions(x)), y.tolist())
        scalars.update(weights, gradients, velocities)
    moved = 0
    for n, p in model.named_parameters():
        assert fractions(p) == weights[n], n
        moved += p.numel()
    return moved


def mlp_gradients(scalars, w, x, labels):
    hidden = scalars.linear(x, w["0.weight"], w["0.bias"])
    active = each(lambda v: max(v, Fraction(0)), hidden)
    logits = scalars.linear(active, w["2.weight"], w["2.bias"])
    e, g = scalars.loss_gradient(logits, labels), {}
    e, g["2.weight"], g["2.bias"] = scalars.linear_back(e, active, w["2.weight"])
    e = each(lambda v, a: v if a > 0 else Fraction(0), e, active)
    _, g["0.weight"], g["0.bias"] = scalars.linear_back(e, x, w["0.weight"])
    return g


@pytest.mark.parametrize("name", NAMED)
def test_a_tiny_mlp_is_that_of_fractions(name):
    torch.manual_seed(8)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x, y = torch.randn(3, 3), torch.tensor([0, 1, 1])
    assert check_training(model, x, y, name, mlp_gradients) == 26


class TinyAttention(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(3, width) for _ in range(3))
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x):  # (places, 3), one example
        mixed = F.scaled_dot_product_attention(
            *(m(x)[None] for m in (self.query, self.key, self.value))
        )
        return self.head(mixed[0])


def attention_gradients(scalars, w, x, labels):
    act, err = (lambda t: scalars("activations", t)), (lambda t: scalars("errors", t))
    scale = Fraction(float(np.float32(4**-0.25)))
    names = ("query", "key", "value")
    q, k, v = (scalars.linear(x, w[f"{n}.weight"], w[f"{n}.bias"]) for n in names)
    q, k = (act(each(lambda t: t * scale, t)) for t in (q, k))
    shares = act(scalars.softmax(act(scalars.product(q, turned(k)))))
    mixed = act(scalars.product(shares, v))
    logits = scalars.linear(mixed, w["head.weight"], w["head.bias"])
    e, g = scalars.loss_gradient(logits, labels), {}
    e, g["head.weight"], g["head.bias"] = scalars.linear_back(e, mixed, w["head.weight"])
    inner = []
    for row, share in zip(err(scalars.product(e, turned(v))), shares, strict=True):
        mean = sum(a * p for a, p in zip(row, share, strict=True))
        inner.append([p * (a - mean) for a, p in zip(row, share, strict=True)])
    inner = err(inner)
    errors = {
        "query": err(each(lambda t: t * scale, err(scalars.product(inner, k)))),
        "key": err(each(lambda t: t * scale, turned(err(scalars.product(turned(q), inner))))),
        "value": err(scalars.product(turned(shares), e)),
    }
    for n in names:
        _, g[f"{n}.weight"], g[f"{n}.bias"] = scalars.linear_back(errors[n], x, w[f"{n}.weight"])
    return g


@pytest.mark.parametrize("name", NAMED)
def test_a_tiny_attention_is_that_of_fractions(name):
    torch.manual_seed(8)
    model, x, y = TinyAttention(), torch.randn(3, 3), torch.tensor([0, 1, 0])
    assert check_training(model, x, y, name, attention_gradients) == 58
