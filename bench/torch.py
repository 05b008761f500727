"""A step of training inside softfloat.torch.emulate against the same step of plain torch, on one thread.

A perceptron 784-512-512-10, batch 128; a small convolutional network; a transformer of two layers. SGD with momentum.
"""

import torch

import softfloat as sf
import softfloat.torch as st
from bench.timing import Row, compare
from softfloat import training

TENSORS = dict.fromkeys(training.policy.ROLES, "bfloat16")
POLICIES = {
    "nearest": training.Policy("n", **TENSORS),
    "stochastic": training.Policy(
        "s", **TENSORS, rounding="stochastic", update_rounding="stochastic"
    ),
    "every product and sum": training.Policy("e", **TENSORS, accumulator="bfloat16"),
}
STEPS = 4  # in each block: entering costs a trial run, which a training run pays once
GOALS = {"mlp": (1.8, 2.0, 4.0), "cnn": (1.7, 1.8, 3.5), "transformer": (3.0, 3.0, None)}


def mlp():
    layers = [(784, 512), (512, 512), (512, 10)]
    parts = [part for size in layers for part in (torch.nn.Linear(*size), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts[:-1]), torch.randn(128, 784)


def cnn():
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip
    return model, torch.randn(64, 1, 28, 28)


class Transformer(torch.nn.Module):
    def __init__(self, width=128):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean(1))


def transformer():
    return Transformer(), torch.randn(16, 64, 128)


class Loop:
    """One model and its optimizer; `run` takes a few steps."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.model, self.x = make()
        self.y = torch.randint(0, 10, (len(self.x),))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3, momentum=0.9)

    def run(self):
        for _ in range(STEPS):
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
        return float(loss.detach())


def rows():
    threads = sf.get_num_threads(), torch.get_num_threads()
    sf.set_num_threads(1)
    torch.set_num_threads(1)
    for make in (mlp, cnn, transformer):
        for (what, policy), goal in zip(POLICIES.items(), GOALS[make.__name__], strict=True):
            yield _row(f"{make.__name__}, {what}", make, policy, goal)
        yield _row(f"{make.__name__}, nothing rounded", make, training.PRESETS["fp32"], None)
    sf.set_num_threads(threads[0])
    torch.set_num_threads(threads[1])


def _row(what, make, policy, goal):
    plain, soft = Loop(make), Loop(make)
    emulation = st.emulate(policy, seed=1)

    def emulated():
        with emulation:
            return soft.run()

    if abs(plain.run() - emulated()) > 0.1:
        raise AssertionError(f"{what}: the loss is wrong, so its speed means nothing")
    ratio, low, high = compare(plain.run, emulated, 10**7, 2.0)
    return Row(what, "plain torch", 1 / ratio, 1 / high, 1 / low, goal, True)
