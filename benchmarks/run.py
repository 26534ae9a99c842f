"""Benchmarks of the tpu device, side by side with PyTorch on the CPU in one process.

    python benchmarks/run.py             all of them
    python benchmarks/run.py ops train   some: cost, ops, train, fused, compiled, start

Rounds are interleaved and minima are compared: look at ratios, not at times. Pin the process to one
core on a busy machine (taskset -c 0).
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

ROUNDS = 7
CALLS = 1000


def minima(bodies: dict[str, Callable[[], None]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each body: the least of `rounds` interleaved runs, after one not counted."""
    best = dict.fromkeys(bodies, float("inf"))
    for body in bodies.values():
        body()
    for _, (name, body) in itertools.product(range(rounds), bodies.items()):
        start = time.perf_counter()
        body()
        best[name] = min(best[name], time.perf_counter() - start)
    return best


def table(title: str, unit: str, rows: dict[str, dict[str, float]], scale: float) -> None:
    print(f"\n{title:<28} {'tpu ' + unit:>12} {'cpu ' + unit:>12} {'ratio':>8}")
    for name, best in rows.items():
        tpu, cpu = best["tpu"], best["cpu"]
        print(f"{name:<28} {tpu * scale:12.2f} {cpu * scale:12.2f} {tpu / cpu:8.2f}")


def cost() -> None:
    """What we add to PJRT's own execute, in C++ (the library of benchmarks/op_cost)."""
    path = os.environ.get("TORCH_TPU_OP_COST", "build/benchmarks/benchmarks/op_cost/op_cost.so")
    if not Path(path).exists():
        sys.exit(
            f"{path} is not there. Build it:\n"
            "  cmake -S . -B build/benchmarks -G Ninja -DTORCH_TPU_BENCHMARKS=ON\n"
            "  cmake --build build/benchmarks --target op_cost"
        )
    torch.empty(1, device="tpu")
    print("\nAdded to PJRT_LoadedExecutable_Execute of the same program, from C++")
    sys.stdout.flush()
    ctypes.CDLL(path).torch_tpu_op_cost(ROUNDS)


def operator_cases(device: str) -> dict[str, Callable[[int], object]]:
    """One small operator each; `i` grows with every call."""
    x, y = torch.full((16, 16), 0.5).to(device), torch.full((16, 16), 1e-6).to(device)
    z, rows = torch.full((16, 16), 0.5).to(device), torch.arange(64 * 16.0).view(64, 16).to(device)
    row, index = torch.ones(16).to(device), torch.arange(8).to(device)
    return {
        "x + y": lambda i: x + y,
        "x * 0.1 (changing)": lambda i: x * (0.1 + i * 1e-6),
        "x.add_(y)": lambda i: z.add_(y),
        "x[i] + y": lambda i: rows[i % 64] + row,
        "x[i]": lambda i: rows[i % 64],
        "x @ y": lambda i: x @ y,
        "x.sum()": lambda i: x.sum(),
        "softmax": lambda i: torch.softmax(x, -1),
        "x[index]": lambda i: rows[index],
        "x.t() + y": lambda i: x.t() + y,
    }


def ops() -> None:
    """From Python, results kept until the end of a round."""
    devices = {device: operator_cases(device) for device in ("cpu", "tpu")}
    count = itertools.count()

    def loop(call):
        def body():
            kept = [call(next(count)) for _ in range(CALLS)]
            torch.tpu.synchronize()
            del kept

        return body

    with torch.no_grad():
        rows = {
            name: minima({device: loop(cases[name]) for device, cases in devices.items()})
            for name in devices["cpu"]
        }
    table(f"From Python, f32 16x16, {CALLS} calls", "us", rows, 1e6 / CALLS)


class Block(nn.Module):
    """A pre-norm decoder block; x is [batch, length, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(b, s, d))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=1024, width=256, heads=4, layers=4, length=128) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def training_parts(device: str, kind: str) -> tuple:
    """(model, optimizer, loss_fn, batch); loss_fn(model, x, y)."""
    torch.manual_seed(0)
    if kind == "mlp":
        model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
        batch = torch.randn(64, 512).to(device), torch.randn(64, 512).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        return model, optimizer, lambda m, x, y: F.mse_loss(m(x), y), batch
    model = GPT().to(device)
    batch = tuple(torch.randint(0, 1024, (4, 128)).to(device) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return (
        model,
        optimizer,
        lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()),
        batch,
    )


def waited(device: str, value: torch.Tensor) -> None:
    value.flatten()[0].item()
    if device == "tpu":
        torch.tpu.synchronize()  # the loss is there before the update is


def training_step(device: str, kind: str, wrap: Callable = lambda f: f) -> Callable[[], None]:
    model, optimizer, loss_fn, batch = training_parts(device, kind)
    loss_fn = wrap(loss_fn)

    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss_fn(model, *batch)
        value.backward()
        optimizer.step()
        waited(device, value)

    return step


def train() -> None:
    rows = {
        f"{kind} training step": minima({d: training_step(d, kind) for d in ("cpu", "tpu")}, 5)
        for kind in ("mlp", "gpt")
    }
    table("Training", "ms", rows, 1e3)


CHAIN = (
    lambda z, x, y: z + y,
    lambda z, x, y: z * 0.9,
    lambda z, x, y: torch.tanh(z),
    lambda z, x, y: F.relu(z) - x,
    lambda z, x, y: z.t() + x,
    lambda z, x, y: torch.maximum(z, y),
    lambda z, x, y: z - z.mean(-1, keepdim=True),
    lambda z, x, y: z @ y,
    lambda z, x, y: torch.softmax(z, -1),
    lambda z, x, y: torch.where(z > 0.1, z, x).clamp(-2, 2),
)
CHAIN_CALLS = 10 * 12  # operators of ten rounds, without views


def chain(device: str) -> Callable[[], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(16, 16, generator=generator).mul(0.2).to(device) for _ in range(2))

    def run():
        z = x
        for _ in range(10):
            for step in CHAIN:
                z = step(z, x, y)
        return z.sum()

    return run


def in_mode(mode: str, body: Callable[[], object]) -> Callable[[], None]:
    mode = {"strict": "DEFER_NEVER", "fused": "DEFER_AND_FUSE"}[mode]

    def run():
        with torch.tpu.eager_mode(torch.tpu.EagerMode[mode]):
            body()

    return run


def fused() -> None:
    """The two eager modes beside the CPU, and the programs that a step starts."""
    workloads = {
        f"{CHAIN_CALLS} small operators, a read": lambda d: (lambda run: lambda: run().item())(
            chain(d)
        ),
        "mlp training step": lambda d: training_step(d, "mlp"),
        "gpt training step": lambda d: training_step(d, "gpt"),
    }
    print(
        f"\n{'ms':<34} {'cpu':>8} {'strict':>8} {'fused':>8} {'fused/strict':>13} {'programs':>12}"
    )
    for name, make in workloads.items():
        bodies = {mode: in_mode(mode, make("tpu")) for mode in ("strict", "fused")}
        bodies["cpu"] = make("cpu")
        for body in bodies.values():
            body(), body()
        started = {}
        for mode in ("strict", "fused"):
            torch.tpu.reset_counters()
            bodies[mode]()
            started[mode] = torch.tpu.counters()["executions"]
        best = minima(bodies)
        cpu, strict, fused = (best[k] * 1e3 for k in ("cpu", "strict", "fused"))
        print(
            f"{name:<34} {cpu:8.3f} {strict:8.3f} {fused:8.3f} {fused / strict:13.2f} "
            f"{started['strict']:5} / {started['fused']:3}"
        )
    with torch.tpu.eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE), torch.no_grad():
        x, y = (torch.randn(16, 16).to("tpu") for _ in range(2))
        best = float("inf")
        for _ in range(ROUNDS * 20):
            torch.tpu.synchronize()
            start = time.perf_counter()
            z = x
            for _ in range(500):
                z = torch.add(z, y)
            best = min(best, time.perf_counter() - start)
            z.sum().item()
        print(f"recording torch.add from Python: {best / 500 * 1e6:.2f} us")


def compile_for_tpu(f: Callable) -> Callable:
    return torch.compile(f, backend="tpu")


def inference(device: str, wrap: Callable = lambda f: f) -> Callable[[], None]:
    model, _, _, (tokens, _) = training_parts(device, "gpt")
    model = wrap(model)

    def run():
        with torch.no_grad():
            waited(device, model(tokens))

    return run


def captured_step() -> Callable[[], None]:
    from torch_tpu.compiler import train_step

    model, optimizer, loss_fn, batch = training_parts("tpu", "gpt")
    step = train_step(model, optimizer, loss_fn)
    return lambda: waited("tpu", step(*batch))


def compiled() -> None:
    """torch.compile and train_step beside eager, and the programs that they start."""
    workloads = {
        "gpt training step": {
            "cpu": training_step("cpu", "gpt"),
            "strict": training_step("tpu", "gpt"),
            "torch.compile": training_step("tpu", "gpt", compile_for_tpu),
            "train_step": captured_step(),
        },
        "gpt inference": {
            "cpu": inference("cpu"),
            "strict": inference("tpu"),
            "torch.compile": inference("tpu", compile_for_tpu),
        },
    }
    print(f"\n{'ms':<34} {'':14} {'time':>8} {'/ cpu':>8} {'programs':>9} {'compiled':>9}")
    for name, bodies in workloads.items():
        made, started = {}, {}
        for kind, body in bodies.items():
            torch.tpu.reset_counters()
            body(), body(), body()
            made[kind] = torch.tpu.counters()["compiles"]
            torch.tpu.reset_counters()
            body()
            started[kind] = torch.tpu.counters()["executions"]
        best = minima(bodies)
        for kind, seconds in best.items():
            print(
                f"{name:<34} {kind:<14} {seconds * 1e3:8.2f} {seconds / best['cpu']:8.2f} "
                f"{started[kind]:9} {made[kind]:9}"
            )
    calls = {}
    for backend, device in (("tpu", "tpu"), ("eager", "cpu")):
        xs = [torch.ones(4).to(device) for _ in range(50)]
        f = torch.compile(lambda *xs: sum(xs[1:], xs[0]), backend=backend)
        f(*xs)
        calls[device] = (
            lambda f=f, xs=xs: [f(*xs) for _ in range(CALLS)] and None  # results die after all
        )
    best = minima(calls)
    print(
        f"call of a compiled function of 50 tensors: {best['tpu'] / CALLS * 1e6:.0f} us; "
        f"Dynamo with 49 additions on the CPU: {best['cpu'] / CALLS * 1e6:.0f} us"
    )


START = """
import torch, torch.nn as nn
torch.manual_seed(0)
layers = (m for _ in range(3) for m in (nn.Linear(256, 256), nn.ReLU()))
model = nn.Sequential(*layers).to("{device}")
with torch.no_grad():
    print(model(torch.ones(8, 256).to("{device}")).sum().item())
"""


def start() -> None:
    """Process start to the first result of a small MLP, on an empty and on a filled disk cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCH_TPU_CACHE_DIR": cache}
        print(f"\n{'Start to first result':<28} {'s':>8}")
        for name, device in (
            ("cpu", "cpu"),
            ("tpu, empty cache", "tpu"),
            ("tpu, filled cache", "tpu"),
        ):
            begin = time.perf_counter()
            code = START.format(device=device)
            subprocess.run(
                [sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL
            )
            print(f"{name:<28} {time.perf_counter() - begin:8.2f}")


def main() -> None:
    parts = {
        "cost": cost,
        "ops": ops,
        "train": train,
        "fused": fused,
        "compiled": compiled,
        "start": start,
    }
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    chosen = parser.parse_args().parts or list(parts)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    device, threads = torch.tpu.get_device_name(), torch.get_num_threads()
    print(f"torch {torch.__version__}, device {device}, {threads} threads")
    for name in chosen:
        parts[name]()
    counters = torch.tpu.counters()
    print(f"\ncompiles {counters['compiles']}, disk-cache hits {counters['disk_cache_hits']}, "
          f"CPU fallbacks {counters['cpu_fallbacks']}")  # fmt: skip


if __name__ == "__main__":
    main()
