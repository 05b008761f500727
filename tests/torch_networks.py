"""Small networks, policies and a plain training loop that the tests of softfloat.torch share, and the parts of which
references by hand are made."""

import numpy as np
import torch

import softfloat as sf
import softfloat.torch as st
from softfloat import training
from softfloat.training.policy import ROLES

torch.set_num_threads(1)  # threads cost more than they give at these sizes
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


class Attention(torch.nn.Module):
    def __init__(self, width=4, places=3):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))
        self.head = torch.nn.Linear(places * width, 3)

    def forward(self, x):
        mixed = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.head(mixed.flatten(1))


def attention():
    return Attention(), torch.randn(2, 3, 4), torch.randint(0, 3, (2,))


NETWORKS = {
    "mlp": mlp, "cnn": cnn, "transformer": transformer, "lstm": lstm, "attention": attention,
}  # fmt: skip
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
def _tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


class Hand:
    """The operations of a policy in NumPy: q(role) rounds, product and total run in the accumulator."""

    def __init__(self, policy, optimizer="sgd"):
        self.policy = policy
        self.optimizer = optimizer
        self.state, self.lost = {}, {}
        self.steps = 0
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

    def convolution(self, x, w, stride=1, padding=0, groups=1):
        if self.fmt is not None:
            return sf.conv2d(x, w, self.fmt, stride=stride, padding=padding, groups=groups)
        return F.conv2d(*_tensors(x, w), None, stride, padding, 1, groups).numpy()

    def convolution_back(self, e, x, w, stride=1, padding=0, groups=1):
        """(error below, gradient of w), not yet rounded."""
        if self.fmt is not None:
            options = {"stride": stride, "padding": padding, "groups": groups}
            return (
                sf.conv2d_input_gradient(e, w, x.shape, self.fmt, **options),
                sf.conv2d_weight_gradient(x, e, w.shape, self.fmt, **options),
            )
        geometry = [[n, n] for n in (stride, padding, 1)]
        found = torch.ops.aten.convolution_backward(
            *_tensors(e, x, w), None, *geometry, False, [0, 0], groups, [True, True, False]
        )
        return found[0].numpy(), found[1].numpy()

    def linear(self, x, w, b):
        return self(
            self.plus(self.product(x, self(w, "weights").T), self(b, "weights")), "activations"
        )

    def linear_back(self, e, x, w):
        """(error below, gradients of w and b, not yet rounded)."""
        below = self(self.product(e, self(w, "weights")), "errors")
        return below, self.product(e.T, x), self.total(e, 0)

    def update(self, weights, gradients):
        """One step of the optimizer, operation by operation."""
        self.steps += 1
        for name, g in gradients.items():
            change = self.sgd if self.optimizer == "sgd" else self.adamw
            weights[name] = change(name, weights[name], self(g, "weight_gradients"))

    def added(self, name, w, change):
        """The exact sum, rounded once to the format that weights are stored in; with kahan what that lost is kept."""
        change, fmt = self(change, "update"), self.policy.grid("stored").fmt
        if name in self.lost:
            change = self(change - self.lost[name], "update")
        found = w + change if fmt is None else np.asarray(sf.add(w, change, fmt))
        if self.policy.kahan:
            self.lost[name] = self((found - w) - change, "optimizer")
        return found

    def sgd(self, name, w, g):
        v = g
        if name in self.state:
            v = self(self.state[name] * np.float32(MOMENTUM), "optimizer")
            v = self(v + g, "optimizer")
        self.state[name] = v
        return self.added(name, w, v * np.float32(-LR))

    def adamw(self, name, w, g, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, decay=1e-2):
        """Loshchilov and Hutter (2019), in the order of torch's operations; each result is rounded."""
        state = lambda x: self(x, "optimizer")  # noqa: E731
        m, v = self.state.get(name, (np.zeros_like(w), np.zeros_like(w)))
        if self.policy.kahan:
            w = self.added(name, w, w * np.float32(-lr * decay))
        else:
            w = self(w * np.float32(1 - lr * decay), "stored")
        m = state(torch.lerp(*map(torch.from_numpy, (m, g)), 1 - betas[0]).numpy())
        v = torch.from_numpy(state(v * np.float32(betas[1])))
        v = state(v.addcmul(*[torch.from_numpy(g)] * 2, value=1 - betas[1]).numpy())
        self.state[name] = m, v
        first, second = 1 - betas[0] ** self.steps, 1 - betas[1] ** self.steps
        root = state(state(np.sqrt(v)) / np.float32(second**0.5))
        return self.added(name, w, m * np.float32(-(lr / first)) / state(root + np.float32(eps)))


def loss_gradient(hand, logits, y):
    """The gradient of the mean cross entropy with respect to the logits: in the carrier, rounded where it enters."""
    held = torch.from_numpy(logits).requires_grad_()
    F.cross_entropy(held, y).backward()
    return hand(held.grad.numpy(), "errors")


def softmax(x):
    return torch.softmax(torch.from_numpy(np.ascontiguousarray(x)), -1).numpy()


def softmax_back(e, y):
    e, y = (torch.from_numpy(np.ascontiguousarray(a)) for a in (e, y))
    return torch.ops.aten._softmax_backward_data(e, y, -1, torch.float32).numpy()


def through(function, e, *inputs):
    """Gradients of a torch function in the carrier: what autograd's own formulas give."""
    held = [torch.from_numpy(np.ascontiguousarray(x)).requires_grad_() for x in inputs]
    e = torch.from_numpy(np.ascontiguousarray(e))
    return [g.numpy() for g in torch.autograd.grad(function(*held), held, e)]
