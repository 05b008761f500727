"""Layers: gradients against differences and against PyTorch, products against softfloat.matmul, random masks."""

import numpy as np
import pytest
from training_networks import NETWORKS, WIDE, make, transformer

import softfloat as sf
from softfloat import training
from softfloat.training.cast import Caster
from softfloat.training.words import stream_of

SEED = 11


def same_bits(a, b):
    kind = f"u{a.dtype.itemsize}"
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.view(kind), b.view(kind))


def passes(trainer, inputs, targets):
    """(loss, gradients of all parameters) of one pass that leaves no trace."""
    cast = trainer.cast.copy(dry=True)
    loss = trainer._passes(cast, inputs, targets)
    return loss, cast.gradients


# ---------------------------------------------------------------- gradients
def slope(loss, value, direction):
    """The derivative of loss() along a direction of an array, which is moved and put back.

    Two central differences, extrapolated: the error is of order h**4 and, through the subtraction, 2**-52 / h.
    """
    kept, found = value.copy(), []
    for h in (2.0**-12, 2.0**-13):
        losses = []
        for step in (h, -h):
            value[...] = kept + step * direction
            losses.append(loss())
        found.append((losses[0] - losses[1]) / (2 * h))
    value[...] = kept
    return (4 * found[1] - found[0]) / 3


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_agree_with_differences(name):
    trainer, drawn = make(name)
    inputs, targets = drawn(1)
    rng = np.random.default_rng(2)
    for value in trainer.parameters.values():  # away from the special point that zeros are
        value += 0.1 * rng.standard_normal(value.shape)
    _, gradients = passes(trainer, inputs, targets)
    assert gradients.keys() == trainer.parameters.keys()
    for key, value in trainer.parameters.items():
        for _ in range(3):
            direction = rng.standard_normal(value.shape)
            direction /= np.linalg.norm(direction)
            found = slope(lambda: passes(trainer, inputs, targets)[0], value, direction)
            assert abs(found - np.sum(gradients[key] * direction)) < 1e-9, key


class Scale(training.Module):
    """A layer whose input gradient a test can see: a parameter of the input's shape, added to it."""

    def __init__(self, shape):
        self.shape = shape

    def initial(self, words):
        return {"value": np.zeros(self.shape, np.float32)}

    def forward(self, x, cast):
        return x + cast.parameter(self.name, "value")

    def backward(self, error, cast, wanted=True):
        cast.gradient(self.name, "value", error.copy())
        return error


LAYERS = {
    "conv2d": (lambda: training.Conv2d(2, 3, 3, stride=2, padding=1, dilation=2), (2, 2, 7, 8)),
    "max_pool2d": (lambda: training.MaxPool2d(3, 2), (2, 2, 7, 8)),
    "avg_pool2d": (lambda: training.AvgPool2d(2), (2, 2, 6, 5)),
    "batch_norm": (lambda: training.BatchNorm(3), (4, 3, 2, 2)),
    "layer_norm": (lambda: training.LayerNorm(5), (4, 3, 5)),
    "attention": (lambda: training.MultiHeadAttention(6, 3), (2, 4, 6)),
    "gelu": (training.GELU, (4, 5)),
    "gelu tanh": (lambda: training.GELU("tanh"), (4, 5)),
    "relu": (training.ReLU, (4, 5)),
    "dropout": (lambda: training.Dropout(0.4), (4, 5)),
    "residual": (lambda: training.Residual(training.Linear(5, 5)), (4, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_input_gradients_agree_with_differences(name):
    layer, shape = LAYERS[name]
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape)
    network = training.Sequential(added=Scale(shape), layer=layer(), flat=training.Flatten())
    weights = None

    def loss(outputs, targets):
        nonlocal weights
        if weights is None:
            weights = rng.standard_normal(outputs.shape)
        return float(np.sum(weights * outputs**2)), 2 * weights * outputs

    trainer = training.Trainer(WIDE, network, loss=loss, seed=SEED)
    _, gradients = passes(trainer, x, None)
    for _ in range(4):
        direction = rng.standard_normal(shape)
        direction /= np.linalg.norm(direction)
        value = trainer.parameters["added.value"]
        found = slope(lambda: passes(trainer, x, None)[0], value, direction)
        assert abs(found - np.sum(gradients["added.value"] * direction)) < 1e-8


# ---------------------------------------------------------------- PyTorch
def torch_convolutional(torch):
    nn = torch.nn
    return nn.ModuleDict({
        "conv": nn.Conv2d(2, 4, 3, padding=1, stride=2), "norm": nn.BatchNorm2d(4),
        "relu": nn.ReLU(), "grouped": nn.Conv2d(4, 4, (3, 2), groups=2, bias=False),
        "largest": nn.MaxPool2d(2, 1), "mean": nn.AvgPool2d(2, 1), "flat": nn.Flatten(),
        "head": nn.Linear(8, 3),
    })  # fmt: skip


def torch_regression(torch):
    nn = torch.nn
    return nn.ModuleDict({
        "first": nn.Linear(6, 10), "norm": nn.BatchNorm1d(10),
        "gelu": nn.GELU(approximate="tanh"), "last": nn.Linear(10, 3, bias=False),
    })  # fmt: skip


def torch_transformer(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)
            for name in ("query", "key", "value", "output"):
                setattr(self, name, nn.Linear(8, 8))

        def forward(self, x):
            y = self.norm(x)
            q, k, v = (
                getattr(self, name)(y).unflatten(-1, (2, 4)).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.output(mixed.transpose(1, 2).flatten(2))

    class Feed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(24, 8)

        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Position(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(5, 8))

        def forward(self, x):
            return x + self.weight

    return nn.ModuleDict({
        "embedding": nn.Embedding(7, 8), "position": Position(), "block": Block(), "feed": Feed(),
        "head": nn.Linear(8, 7),
    })  # fmt: skip


TORCH = {
    "convolutional": torch_convolutional,
    "regression": torch_regression,
    "transformer": torch_transformer,
}


def torch_name(key):
    """The name in the PyTorch model of a parameter of ours; and whether it lies the other way round."""
    key = key.replace(".inner.attention.", ".").replace(".inner.", ".")
    return key.replace("norm.gain", "norm.weight")


def copied(trainer, model, torch):
    """{our name: the parameter of the model}, which gets our values."""
    named, found = dict(model.named_parameters()), {}
    for key, value in trainer.parameters.items():
        parameter = found[key] = named[torch_name(key)]
        linear = parameter.ndim == 2 and parameter.shape == value.T.shape
        linear = linear and not key.startswith(("embedding", "position"))
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(value.T if linear else value))
        parameter.turned = linear
    assert len(found) == len(named)
    return found


OPTIMIZERS = {
    "sgd": (
        lambda: training.SGD(0.05, 0.9, 0.01),
        lambda t, p: t.optim.SGD(p, 0.05, 0.9, weight_decay=0.01),
    ),
    "adam": (
        lambda: training.Adam(0.01, epsilon=1e-4, weight_decay=0.01),
        lambda t, p: t.optim.Adam(p, 0.01, eps=1e-4, weight_decay=0.01),
    ),
    "adamw": (
        lambda: training.AdamW(0.01, (0.8, 0.95), 1e-4, 0.1),
        lambda t, p: t.optim.AdamW(p, 0.01, (0.8, 0.95), 1e-4, 0.1),
    ),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_training_in_binary64_is_that_of_pytorch(name, optimizer):
    torch = pytest.importorskip("torch")
    ours, theirs = OPTIMIZERS[optimizer]
    trainer, drawn = make(name, optimizer=ours())
    model = TORCH[name](torch).double()
    parameters = copied(trainer, model, torch)
    steps = theirs(torch, model.parameters())
    for seed in range(4):
        inputs, targets = drawn(seed)
        x = torch.from_numpy(inputs)
        for layer in model.values():
            x = layer(x)
        t = torch.from_numpy(targets)
        f = torch.nn.functional
        loss = (
            f.mse_loss(x, t)
            if name == "regression"
            else f.cross_entropy(x.flatten(0, -2), t.flatten())
        )
        steps.zero_grad()
        loss.backward()
        steps.step()
        # Two orders of summation in binary64. Adam divides by roots of gradients, some of which are nothing but
        # rounding errors (of a bias before a normalization): epsilon keeps those small.
        assert trainer.step(inputs, targets) == pytest.approx(loss.item(), rel=1e-9)
        for key, parameter in parameters.items():
            value = parameter.detach().numpy()
            value = value.T if parameter.turned else value
            gap = np.abs(value - trainer.parameters[key]).max()
            assert gap < 2e-8 * max(1.0, np.abs(value).max()), key
    if "norm.mean" in trainer.buffers:
        kept = dict(model.named_buffers())
        for ours, theirs in (("mean", "running_mean"), ("variance", "running_var")):
            gap = trainer.buffers[f"norm.{ours}"] - kept[f"norm.{theirs}"].numpy()
            assert np.abs(gap).max() < 1e-8


# ---------------------------------------------------------------- products
SUMS = {
    "rounded": ({"accumulator": "bfloat16"}, {}),
    "exact": ({"accumulator": "e6m9", "product": "exact"}, {"product": None}),
    "chunked": (
        {"accumulator": "bfloat16", "product": "exact", "block": 4},
        {"product": None, "order": "blocked", "block": 4},
    ),
    "product": (
        {"accumulator": "binary32", "product": ("bfloat16", "toward_zero")},
        {"product": sf.bfloat16, "product_rounding": "toward_zero"},
    ),
}


@pytest.mark.parametrize("how", SUMS)
def test_every_multiply_add_is_that_of_matmul(how):
    options, expected = SUMS[how]
    policy = training.Policy("p", weights="bfloat16", activations="bfloat16", **options)
    fmt = sf.as_format(options["accumulator"])
    rng = np.random.default_rng(4)
    x, w = (
        sf.quantize(rng.standard_normal(shape).astype(np.float32), sf.bfloat16)
        for shape in ((9, 30), (30, 7))
    )
    b = rng.standard_normal(7).astype(np.float32)
    layer = training.Linear(30, 7)
    layer.bind("layer")
    cast = Caster(policy, SEED)
    cast.parameters = {"layer.weight": w, "layer.bias": b}
    y = layer.forward(x, cast)
    sums = sf.matmul(x, w, fmt, **expected)
    assert same_bits(y, sf.quantize(sf.add(sums, b, fmt), sf.bfloat16))
    error = rng.standard_normal((9, 7)).astype(np.float32)
    below = layer.backward(error, cast)
    assert same_bits(below, np.asarray(sf.matmul(error, w.T, fmt, **expected)))
    assert same_bits(cast.gradients["layer.weight"], sf.matmul(x.T, error, fmt, **expected))
    order = {key: expected[key] for key in ("order", "block") if key in expected}
    assert same_bits(cast.gradients["layer.bias"], sf.sum(error, fmt, 0, **order))


def test_stochastic_sums_have_words_of_their_own():
    policy = training.Policy("p", accumulator=("bfloat16", "stochastic"))
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((9, 30), (30, 7)))
    cast = Caster(policy, SEED)
    cast.step = 3
    got = cast.product(x, w, "layer", "output")
    how = {"rounding": "stochastic", "seed": SEED, "stream": stream_of(3, "layer.output.sums")}
    assert same_bits(got, sf.matmul(x, w, sf.bfloat16, **how))
    cast.step = 4
    assert not same_bits(got, cast.product(x, w, "layer", "output"))


@pytest.mark.parametrize("scaling", [None, "current", "delayed"])
def test_an_engine_multiplies_the_codes_of_scaled_tensors(scaling):
    engine = sf.engines.h100_fp8
    policy = training.Policy(
        "p", weights="e4m3fn", activations="e4m3fn", errors="e5m2", master="binary32",
        saturate=True, scaling=scaling, engine="h100_fp8",
    )  # fmt: skip
    trainer = training.Trainer(policy, (40, 12, 5), lr=0.1, seed=SEED)
    rng = np.random.default_rng(6)
    for _ in range(3):
        x = rng.random((8, 40), dtype=np.float32)
        assert np.isfinite(trainer.step(x, rng.integers(0, 5, 8)))
    cast = trainer.cast.copy(dry=True)
    first = trainer.network.parts["layer1"]
    first.forward(cast(x, "activations", "input"), cast)
    p, q = (cast.scales.get(name, 1.0) for name in ("input", "layer1.weight"))
    codes = [sf.array(a * np.float32(s), sf.float8_e4m3fn)
             for a, s in ((first.input, p), (first.weight, q))]  # fmt: skip
    expected = sf.matmul(*codes, sf.binary32, engine=engine).to_numpy() / np.float32(p * q)
    got = cast.product(first.input, first.weight, "layer1", "output")
    assert same_bits(got, expected)


def test_convolutions_round_every_multiply_add():
    policy = training.Policy("p", accumulator="bfloat16")
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 6, 6), (4, 3, 3, 3)))
    layer = training.Conv2d(3, 4, 3, padding=1, bias=False).bind("conv")
    cast = Caster(policy, SEED)
    cast.parameters = {"conv.weight": w}
    y = layer.forward(x, cast)
    assert same_bits(y, sf.conv2d(x, w, sf.bfloat16, padding=1))
    below = layer.backward(y, cast)
    assert same_bits(below, sf.conv2d_input_gradient(y, w, x.shape, sf.bfloat16, padding=1))
    expected = sf.conv2d_weight_gradient(x, y, w.shape, sf.bfloat16, padding=1)
    assert same_bits(cast.gradients["conv.weight"], expected)


# ---------------------------------------------------------------- layers
def test_dropout_is_a_function_of_seed_step_and_layer():
    layer = training.Dropout(0.25).bind("drop")
    x = np.ones((200, 51), np.float32)

    def masked(seed=1, step=2, name="drop"):
        cast = Caster(training.PRESETS["fp32"], seed)
        cast.step = step
        layer.bind(name)
        return layer.forward(x, cast)

    whole = masked()
    assert same_bits(whole, masked())
    assert set(np.unique(whole)) == {0, np.float32(1 / 0.75)}
    assert abs(np.mean(whole > 0) - 0.75) < 0.02
    for other in (masked(seed=2), masked(step=3), masked(name="other")):
        assert 0.3 < np.mean(whole != other) < 0.45  # 2 * 0.75 * 0.25
    quiet = Caster(training.PRESETS["fp32"], 1, training=False)
    assert layer.forward(x, quiet) is x


def test_evaluation_of_batch_norm_uses_what_it_has_seen():
    trainer, drawn = make("regression")
    for seed in range(3):
        trainer.step(*drawn(seed))
    inputs, targets = drawn(9)
    whole = trainer.predict(inputs)
    # A product of one row is summed in another order than one of many.
    alone = np.concatenate([trainer.predict(inputs[i : i + 1]) for i in range(8)])
    assert np.abs(whole - alone).max() < 1e-13
    kept = {key: value.copy() for key, value in trainer.buffers.items()}
    passes(trainer, inputs, targets)
    assert all(np.array_equal(kept[key], trainer.buffers[key]) for key in kept)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_trains_in_every_depth(name):
    for policy in ("mixed_binary16", "fp8_hybrid", "fp8_chunked", "fixed_point"):
        trainer, drawn = make(name, policy)
        inputs, targets = drawn(1)
        losses = [trainer.step(inputs, targets) for _ in range(3)]
        assert np.isfinite(losses).all() and trainer.bad is None, policy


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: training.Linear(0, 3), ValueError, "positive integers"),
        (lambda: training.MultiHeadAttention(6, 4), ValueError, "heads must divide"),
        (lambda: training.Dropout(1.0), ValueError, r"\[0, 1\)"),
        (lambda: training.GELU("fast"), ValueError, "approximate"),
        (lambda: training.Sequential(), ValueError, "one or more"),
        (lambda: training.Sequential(abs), TypeError, "must be a Module"),
        (lambda: training.MaxPool2d(0), ValueError, "MaxPool2d: sizes must be"),
        (lambda: training.LayerNorm(0), ValueError, "LayerNorm: sizes must be"),
        (lambda: training.Adam(betas=(1, 0)), ValueError, "betas"),
        (lambda: training.AdamW(weight_decay=-1), ValueError, "weight_decay"),
        (lambda: training.mean_squared_error(np.zeros(2), np.zeros(3)), ValueError, "shape"),
        (lambda: training.softmax_cross_entropy(np.zeros((2, 3)), [1]), ValueError, "labels"),
    ],
)
def test_layers_refuse_what_has_no_meaning(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_embedding_refuses_indices_beyond_its_table():
    trainer = training.Trainer("fp32", transformer(), seed=SEED)
    with pytest.raises(ValueError, match=r"entries 0\.\.6, got 1\.\.7"):
        trainer.step(np.array([[1, 7]]), np.array([[1, 1]]))
    with pytest.raises(TypeError, match="takes integers"):
        trainer.step(np.zeros((1, 2)), np.array([[1, 1]]))
    with pytest.raises(ValueError, match="5 places, the sequence 6"):
        trainer.step(np.zeros((1, 6), int), np.zeros((1, 6), int))
