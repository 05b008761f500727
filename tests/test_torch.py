"""softfloat.torch: unmodified models against references written by hand with the package's NumPy functions; bits count."""

import os
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import softfloat as sf  # noqa: E402
import softfloat.torch as st  # noqa: E402
from softfloat import training  # noqa: E402
from softfloat.training.policy import ROLES  # noqa: E402

F = torch.nn.functional
LR, MOMENTUM = 0.125, 0.5
BF16 = dict.fromkeys(ROLES, "bfloat16")
DEEP = training.Policy("deep", **BF16, accumulator="bfloat16")
SHALLOW = training.Policy(
    "shallow", weights="float8_e4m3", activations="float8_e4m3", errors="float8_e5m2",
    weight_gradients="bfloat16", optimizer="bfloat16", update="bfloat16", master="binary16",
)  # fmt: skip
RANDOM = training.Policy(
    "random", **BF16, accumulator="e8m9", rounding="stochastic", update_rounding="stochastic"
)


@pytest.fixture(autouse=True)
def known_start():
    torch.manual_seed(3)
    yield
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def mlp():
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    return model, torch.randn(6, 5), torch.randint(0, 3, (6,))


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.second = torch.nn.Conv2d(4, 4, 3, stride=2, groups=2, bias=False)
        self.drop = torch.nn.Dropout(0.25)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(self.drop(F.relu(self.second(x)).flatten(1)))


def cnn():
    return Images(), torch.randn(4, 2, 8, 8), torch.randint(0, 3, (4,))


class Text(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, width)
        self.layer = torch.nn.TransformerEncoderLayer(
            width, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.head = torch.nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x)).mean(1))


def transformer():
    return Text(), torch.randint(0, 11, (4, 5)), torch.randint(0, 3, (4,))


class Sequences(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    return Sequences(), torch.randn(4, 3, 4), torch.randint(0, 3, (4,))


NETWORKS = {"mlp": mlp, "cnn": cnn, "transformer": transformer, "lstm": lstm}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, LR, momentum=MOMENTUM, foreach=False),
    "sgd_foreach": lambda p: torch.optim.SGD(p, LR, momentum=MOMENTUM, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
}


def loop(model, optimizer, x, y, steps=3, extra=False):
    """The training loop of a user, who knows nothing of emulation."""
    for step in range(steps):
        optimizer.zero_grad()
        outputs = model(x)
        if extra and step % 2:
            with torch.no_grad():
                (model.eval()(x).argmax(-1) == y).float().mean()
                model.train()
            (outputs.detach() * 1.5).mean().exp()
        loss = F.cross_entropy(outputs, y)
        loss.backward()
        optimizer.step()
    return loss


def trained(network, policy, optimizer="sgd", steps=3, **options):
    """The weights after a few steps, as one array, and the emulation."""
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    extra = options.pop("extra", False)
    run = OPTIMIZERS[optimizer](model.parameters())
    with st.emulate(policy, **options) as emulation:
        loop(model, run, x, y, steps, extra)
    return flat(model), emulation


def flat(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def assert_same_bits(got, want):
    got, want = (np.ascontiguousarray(a, np.float32).view(np.uint32) for a in (got, want))
    assert np.array_equal(got, want), f"{np.count_nonzero(got != want)} of {got.size} differ"


# ---------------------------------------------------------------- references by hand
class Hand:
    """The operations of a policy in NumPy: q(role) rounds, product and total run in the accumulator."""

    def __init__(self, policy):
        self.policy = policy
        self.fmt, self.options = policy.sums or (None, {})

    def __call__(self, x, role):
        grid = self.policy.grid(role)
        x = np.asarray(x, np.float32)
        return x if grid.fmt is None else np.asarray(sf.quantize(x, grid.fmt))

    def product(self, a, b):
        if self.fmt is None:
            a, b = (torch.from_numpy(np.asarray(x)) for x in (a, b))
            return (a @ b).numpy()
        return sf.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b), self.fmt, **self.options)

    def plus(self, y, b):
        return y + b if self.fmt is None else sf.add(y, b, self.fmt)

    def total(self, x, axis):
        if self.fmt is None:
            return torch.from_numpy(x).sum(axis).numpy()
        return sf.sum(x, self.fmt, axis)

    def linear(self, x, w, b):
        return self(
            self.plus(self.product(x, self(w, "weights").T), self(b, "weights")), "activations"
        )

    def linear_back(self, e, x, w):
        """(error below, gradients of w and b, not yet rounded)."""
        below = self(self.product(e, self(w, "weights")), "errors")
        return below, self.product(e.T, x), self.total(e, 0)

    def update(self, weights, gradients, velocities):
        """One step of SGD with momentum, operation by operation."""
        for name, g in gradients.items():
            g = self(g, "weight_gradients")
            if name in velocities:
                v = self(velocities[name] * np.float32(MOMENTUM), "optimizer")
                v = self(v + g, "optimizer")
            else:
                v = g
            velocities[name] = v
            change = self(v * np.float32(-LR), "update")
            fmt = self.policy.grid("stored").fmt
            w = weights[name]
            weights[name] = w + change if fmt is None else np.asarray(sf.add(w, change, fmt))


def loss_gradient(hand, logits, y):
    """The gradient of the mean cross entropy with respect to the logits: in the carrier, rounded where it enters."""
    held = torch.from_numpy(logits).requires_grad_()
    F.cross_entropy(held, y).backward()
    return hand(held.grad.numpy(), "errors")


def by_hand_mlp(policy, steps=3):
    torch.manual_seed(3)
    model, x, y = mlp()
    w = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
    hand, velocities = Hand(policy), {}
    x = hand(x.numpy(), "activations")
    for _ in range(steps):
        hidden = hand.linear(x, w["0.weight"], w["0.bias"])
        active = np.maximum(hidden, np.float32(0))
        logits = hand.linear(active, w["2.weight"], w["2.bias"])
        error = loss_gradient(hand, logits, y)
        g = {}
        below, g["2.weight"], g["2.bias"] = hand.linear_back(error, active, w["2.weight"])
        below = np.where(active > 0, below, np.float32(0))
        _, g["0.weight"], g["0.bias"] = hand.linear_back(below, x, w["0.weight"])
        hand.update(w, g, velocities)
    return np.concatenate([w[name].ravel() for name, _ in model.named_parameters()])


@pytest.mark.parametrize("optimizer", ["sgd", "sgd_foreach"])
@pytest.mark.parametrize("policy", [SHALLOW, DEEP], ids=lambda p: p.name)
def test_an_mlp_trains_as_its_reference_by_hand(policy, optimizer):
    assert_same_bits(trained("mlp", policy, optimizer)[0], by_hand_mlp(policy))


# ---------------------------------------------------------------- all networks
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_policy_of_float32_gives_the_bits_of_plain_torch(network, optimizer):
    torch.manual_seed(3)
    model, x, y = NETWORKS[network]()
    loop(model, OPTIMIZERS[optimizer](model.parameters()), x, y)
    assert_same_bits(trained(network, "fp32", optimizer)[0], flat(model))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_weight_lies_on_its_grid(network, optimizer):
    found, emulation = trained(network, DEEP, optimizer)
    assert_same_bits(np.asarray(sf.quantize(found, "bfloat16")), found)
    calls = emulation.report().calls
    assert not {"unknown", "opaque", "lost"} & set(calls)


@pytest.mark.parametrize("network", NETWORKS)
def test_stochastic_runs_repeat_with_other_work_in_the_loop_and_on_any_threads(network):
    first = trained(network, RANDOM, seed=5)[0]
    assert_same_bits(trained(network, RANDOM, seed=5)[0], first)
    before = sf.get_num_threads()
    sf.set_num_threads(1)
    assert_same_bits(trained(network, RANDOM, seed=5)[0], first)
    sf.set_num_threads(before)
    assert np.any(trained(network, RANDOM, seed=6)[0] != first)
    if network not in (
        "cnn",
    ):  # whose other work draws the masks of dropout's generator, as without emulation
        assert_same_bits(trained(network, RANDOM, seed=5, extra=True)[0], first)
