"""softfloat.torch on CUDA tensors: the bits of the CPU. Run with -m gpu."""

import pytest

torch = pytest.importorskip("torch")

from torch_networks import DEEP, RANDOM, F, assert_same_bits  # noqa: E402

import softfloat.torch as st  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Small(torch.nn.Module):
    """Products, sums and choices only: what else runs in float32 need not round alike on both devices."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(2, 4, 3), torch.nn.Linear(36, 3)

    def forward(self, x):
        return self.second(F.relu(self.first(x)).flatten(1))


def weights_on(device, policy):
    torch.manual_seed(3)
    model, x, e = Small(), torch.randn(4, 2, 5, 5), torch.randn(4, 3)
    model, x, e = model.to(device), x.to(device), e.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.125, momentum=0.5)
    with st.emulate(policy, seed=5) as emulation:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).backward(e)
            optimizer.step()
    assert not {"unknown", "opaque", "lost"} & set(emulation.report().calls)
    return torch.cat([p.detach().cpu().ravel() for p in model.parameters()])


@pytest.mark.parametrize("policy", [DEEP, RANDOM], ids=lambda p: p.name)
def test_weights_on_a_device_are_those_on_the_host(policy):
    assert_same_bits(weights_on("cuda", policy), weights_on("cpu", policy))
