"""Fused mode: what it runs, when, and that its numbers are those of Strict."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

FUSED = torch.tpu.EagerMode.DEFER_AND_FUSE
STRICT = torch.tpu.EagerMode.DEFER_NEVER


@pytest.fixture(autouse=True)
def _fused():
    with torch.tpu.eager_mode(FUSED):
        yield


def programs():
    """Programs compiled or loaded, and programs started, since the last call."""
    counters = torch.tpu.counters()
    torch.tpu.reset_counters()
    return counters["compiles"] + counters["disk_cache_hits"], counters["executions"]


def test_a_chain_is_one_program():
    host = torch.randn(5, 7)
    x = host.to("tpu")
    torch.tpu.reset_counters()
    y = x
    want = host
    for i in range(20):
        y, want = (y * 0.5 + i).sin(), (want * 0.5 + i).sin()
    assert programs() == (0, 0)
    torch.testing.assert_close(y.cpu(), want)
    assert programs() == (1, 1)


def test_numbers_that_change_are_operands():
    x = torch.randn(5, 6, device="tpu")

    def run(i):
        return ((x[i % 5] * (0.5 + i)).exp().clamp(max=3.0 + i) + i).cpu()

    run(0), run(1)
    torch.tpu.reset_counters()
    for i in range(2, 12):
        run(i)
    assert programs() == (0, 10)


def test_one_operator_is_the_program_of_strict():
    x = torch.randn(3, 11).to("tpu")
    with torch.tpu.eager_mode(STRICT):
        x.cos().cpu()
    torch.tpu.reset_counters()
    x.cos().cpu()
    assert programs() == (0, 1)


def test_dead_values_are_not_results():
    x = torch.ones(4, 1 << 18, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    y = ((x + 1) * 2).sum()
    assert torch.tpu.memory_allocated() - before == y.element_size()
    assert y.item() == 4 * 4 * (1 << 18)


def test_writes_and_views_in_order():
    host = torch.arange(24.0).view(4, 6)
    x = host.to("tpu")
    for t in (host, x):
        row, column = t[1], t[:, 2]
        row.mul_(2)
        column.add_(row[2])
        t.t()[3].copy_(column)
        t[2:].zero_()
        column.add_(1)
    assert torch.equal(x.cpu(), host)
    assert torch.equal(x[1].cpu(), host[1])


def test_a_value_replaced_from_the_host():
    x = torch.zeros(4, device="tpu")
    before = x + 1
    x.copy_(torch.full((4,), 5.0))
    after = x + 1
    assert before.tolist() == [1.0] * 4
    assert after.tolist() == [6.0] * 4


def test_a_storage_that_dies_and_one_that_is_resized():
    x = torch.arange(4.0, device="tpu")
    y = x * 2
    x.resize_(6)
    assert x[:4].tolist() == [0, 1, 2, 3]
    z = y + 1
    del x, y
    assert z.tolist() == [1, 3, 5, 7]


def test_random_numbers_are_those_of_strict():
    def draw():
        torch.manual_seed(5)
        x = torch.randn(10, device="tpu")
        y = F.dropout(torch.ones(50, device="tpu"), 0.5)
        return (
            x.cpu(),
            torch.rand(3, device="tpu").cpu(),
            y.cpu(),
            torch.randperm(9, device="tpu").cpu(),
        )

    fused = draw()
    with torch.tpu.eager_mode(STRICT):
        strict = draw()
    for a, b in zip(fused, strict, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 1000).exp().log(),
        lambda x: (x * 1e30).square().sqrt(),
        lambda x: (x + 1e30) - 1e30,
        lambda x: x * 1e30 * 1e30 * 1e-30,
        lambda x: (x * 100).exp() * (x * -80).exp(),
        lambda x: (x * 100).exp().pow(0.5),
        lambda x: x / 1e-30 / 1e-30 * 1e-30,
    ],
)
def test_values_that_overflow_between_operators(function):
    x = torch.ones(3)
    assert torch.equal(function(x.to("tpu")).cpu(), function(x))


def test_an_index_error_surfaces_at_a_read():
    table = torch.randn(4, 3, device="tpu")
    out = table.index_select(0, torch.tensor([1, 9], device="tpu")) * 2
    with pytest.raises(IndexError, match="index_select: index 9 is out of range"):
        out.cpu()
    assert (table + 1).shape == (4, 3)
    torch.tpu.synchronize()


def test_errors_of_the_call_are_raised_by_it():
    x = torch.randn(2, 3, device="tpu")
    with pytest.raises(RuntimeError, match="broadcast|size of tensor"):
        x + torch.randn(2, 4, device="tpu")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1024, 1024, device="tpu").expand(1024, 1024, 1024).contiguous() + torch.zeros(
            (1 << 40,), device="tpu"
        )
    assert (x - x).sum().item() == 0


def train(model, optimizer, steps, read_every=0):
    losses = []
    for i in range(steps):
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(8, 16, generator=generator).to("tpu")
        y = torch.randint(4, (8,), generator=generator).to("tpu")
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if read_every and i % read_every == read_every - 1:
            loss.item()
    return losses


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 4)).to("tpu")


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_training_step_is_one_program(optimizer):
    """Without any read the step is recognised: nothing compiles after the third."""
    model = mlp()
    update = optimizer(model.parameters(), lr=0.01)
    losses = train(model, update, 4)
    torch.tpu.reset_counters()
    losses += train(model, update, 196)
    assert programs() == (0, 196)
    fused = torch.stack(losses).cpu()
    with torch.tpu.eager_mode(STRICT):
        model = mlp()
        strict = torch.stack(train(model, optimizer(model.parameters(), lr=0.01), 4)).cpu()
    torch.testing.assert_close(fused[:4], strict)


def test_a_training_step_with_reads_now_and_then():
    model = mlp()
    update = torch.optim.Adam(model.parameters())
    train(model, update, 24, read_every=8)
    torch.tpu.reset_counters()
    train(model, update, 64, read_every=8)
    compiled, started = programs()
    assert compiled == 0
    assert started <= 64 + 2 * 8


def test_layers_are_not_steps():
    """A model whose layers are alike, in one program until it is read."""
    layers = [nn.Linear(8, 8).to("tpu") for _ in range(12)]
    x = torch.randn(4, 8, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_counters()
    with torch.no_grad():
        for layer in layers:
            for _ in range(2):
                x = (F.layer_norm(layer(x), (8,)).relu() * 0.5 + x).tanh().sin() - 0.1
    x.cpu()
    assert programs() == (1, 1)


def test_inference_without_reads_stays_bounded():
    model = mlp().eval()
    outs = []
    torch.tpu.synchronize()
    torch.tpu.reset_counters()
    with torch.no_grad():
        for i in range(900):
            y = model(torch.full((8, 16), i * 1e-3).to("tpu"))
            for _ in range(4):
                y = y.sin() + 0.5
            outs.append(y.sum())
        got = torch.stack(outs[:3] + outs[-3:]).cpu()
        assert programs()[0] <= 4
        with torch.tpu.eager_mode(STRICT):
            want = []
            for i in (0, 1, 2, 897, 898, 899):
                y = model(torch.full((8, 16), i * 1e-3).to("tpu"))
                for _ in range(4):
                    y = y.sin() + 0.5
                want.append(y.sum())
            want = torch.stack(want).cpu()
    torch.testing.assert_close(got, want)


def test_decoding_compiles_for_no_position():
    cache = torch.zeros(32, 4, device="tpu")
    query = torch.ones(4, device="tpu")

    def step(position):
        cache[position].copy_(query * position)
        scores = (cache @ query).softmax(0)
        return scores.argmax().item()

    [step(i) for i in range(3)]
    torch.tpu.reset_counters()
    assert [step(i) for i in range(3, 30)] == list(range(3, 30))
    assert programs() == (0, 27)


def test_modes_change_and_run_what_was_recorded():
    assert torch.tpu.get_eager_mode() is FUSED
    x = torch.ones(3, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_counters()
    y = x + 1
    assert programs()[1] == 0
    with torch.tpu.set_eager_mode(STRICT):
        assert programs()[1] == 1
        z = y + 1
        assert programs()[1] == 1
    assert torch.tpu.get_eager_mode() is FUSED
    assert z.tolist() == [3, 3, 3]
    with pytest.raises(TypeError, match="EagerMode"):
        torch.tpu.set_eager_mode("fused")


def test_threads_record_together():
    results = {}

    def work(k):
        x = torch.full((4, 4), float(k), device="tpu")
        for i in range(50):
            x = x * 0.9 + k
            if i % 10 == 9:
                x = x + x.sum().item() * 0
        results[k] = x.cpu()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for k in range(4):
        want = torch.full((4, 4), float(k))
        for _ in range(50):
            want = want * 0.9 + k
        torch.testing.assert_close(results[k], want)
