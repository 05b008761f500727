"""An unmodified PyTorch model in six kinds of arithmetic: one table, and a figure of the losses.

python examples/torch_training.py [--steps N] [--data digits] [--figure FILE]
"""

import argparse

import torch

import softfloat.torch as st
from softfloat import training

HALF = training.PRESETS["mixed_binary16"]
RECIPES = {
    "fp32": "fp32",
    "pure fp16": "pure_binary16",
    "mixed fp16, GradScaler": HALF,
    "bf16, stochastic updates": "bfloat16_stochastic",
    "FP8 hybrid": "fp8_current",
    # Each product and sum as the H100's FP8 unit forms them.
    "FP8 hybrid, H100 sums": training.Policy(
        "fp8_h100", weights="float8_e4m3fn", activations="float8_e4m3fn", errors="float8_e5m2",
        logits="bfloat16", master="binary32", saturate=True, scaling="current", engine="h100_fp8",
    ),
}  # fmt: skip


def network(inputs, classes):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 48), torch.nn.ReLU(), torch.nn.Linear(48, classes)
    )


def train(x, y, steps, scaled, batch=32):
    """The loop of any PyTorch program: nothing in it knows of formats."""
    torch.manual_seed(0)
    model = network(x.shape[1], int(y.max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    losses = []
    for step in range(steps):
        rows = torch.arange(step * batch, (step + 1) * batch) % len(x)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return model, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--data", default="digits", help="digits or fashion-mnist")
    parser.add_argument("--data-dir", help="folder of the files of fashion-mnist")
    parser.add_argument("--figure")
    options = parser.parse_args()
    data = training.load_data(options.data, options.data_dir)
    x, y = (torch.from_numpy(a) for a in (data.images, data.labels.astype("int64")))
    test_x, test_y = (
        torch.from_numpy(a) for a in (data.test_images, data.test_labels.astype("int64"))
    )
    curves = {}
    print(f"{'recipe':26} {'last losses':>12} {'accuracy':>9} {'products':>9}")
    for name, policy in RECIPES.items():
        with st.emulate(policy, seed=1, logits="2") as emulation:
            model, losses = train(x, y, options.steps, scaled=policy is HALF)
            with torch.no_grad():
                right = (model(test_x).argmax(1) == test_y).float().mean().item()
        last = losses[-10:]
        products = sum(emulation.report().calls["product"].values())
        print(f"{name:26} {sum(last) / len(last):12.4f} {right:9.3f} {products:9}")
        curves[name] = losses
    if options.figure:
        draw(curves, options.figure)


def draw(curves, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, losses in curves.items():
        axes.semilogy(losses, label=name, linewidth=1)
    axes.set(xlabel="step", ylabel="loss", title="One model, one loop, six arithmetics")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
