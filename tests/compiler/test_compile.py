"""torch.compile(backend="tpu"): the same numbers as eager, one program a graph, few compiles."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "tpu"


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiled(fn=None, **kwargs):
    return torch.compile(fn, backend="tpu", **kwargs)


def count(key, fn):
    """How much a counter grows while fn runs."""
    before = torch.tpu.counters()[key]
    fn()
    torch.tpu.synchronize()
    return torch.tpu.counters()[key] - before


def small_model():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


# ---- one program


def test_inference_is_one_program():
    model = small_model()
    fast = compiled(copy.deepcopy(model).to(DEVICE), fullgraph=True)
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(fast(x.to(DEVICE)).cpu(), model(x))
        moved = x.to(DEVICE)
        assert count("executions", lambda: fast(moved)) == 1
        assert count("compiles", lambda: fast(moved)) == 0


def test_training_is_a_forward_and_a_backward_program():
    model = small_model()
    twin = copy.deepcopy(model).to(DEVICE)
    x = torch.randn(3, 8)
    model(x).square().sum().backward()
    loss = compiled(lambda x: twin(x).square().sum(), fullgraph=True)
    loss(x.to(DEVICE)).backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-5, atol=1e-5)
    twin.zero_grad()
    moved = x.to(DEVICE)
    # The third is the gradient of the loss itself, a 1 that autograd makes.
    assert count("executions", lambda: loss(moved).backward()) == 3


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop"])
def test_training_steps_are_those_of_eager(optimizer):
    losses = {}
    for fast in (False, True):
        torch.manual_seed(1)
        model = small_model().to(DEVICE)
        update = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
        loss_fn = lambda x, model=model: F.mse_loss(model(x), x[:, :4])  # noqa: E731
        loss_fn = compiled(loss_fn) if fast else loss_fn
        losses[fast] = []
        for i in range(5):
            update.zero_grad()
            loss = loss_fn(torch.full((3, 8), 0.1 * (i + 1), device=DEVICE))
            loss.backward()
            update.step()
            losses[fast].append(loss.item())
    torch.testing.assert_close(losses[True], losses[False], rtol=1e-5, atol=1e-6)


def test_optimizer_step_is_one_program_and_donates():
    model = small_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, capturable=True)
    step = compiled(optimizer.step)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    for _ in range(3):
        step()
    # The results are written into the storages of parameters and states: none is added.
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    assert count("executions", step) == 1
    assert torch.tpu.memory_allocated() == before


# ---- arguments and results: views, mutation, aliasing


def test_mutated_argument():
    @compiled
    def f(x, y):
        x.add_(y)
        return x * 2

    x, y = torch.ones(3, 2, device=DEVICE), torch.arange(6.0, device=DEVICE).view(3, 2)
    out = f(x, y)
    torch.testing.assert_close(x.cpu(), 1 + y.cpu())
    torch.testing.assert_close(out.cpu(), 2 * x.cpu())


def test_view_of_a_bigger_tensor_is_written_and_its_offset_is_no_key():
    @compiled
    def f(x):
        x.mul_(3)
        return x + 1

    memory = torch.ones(8, 4, device=DEVICE)
    f(memory[0:2])
    assert count("compiles", lambda: f(memory[4:6])) == 0
    expected = torch.ones(8, 4)
    expected[0:2] = 3
    expected[4:6] = 3
    torch.testing.assert_close(memory.cpu(), expected)


def test_arguments_that_share_memory():
    @compiled
    def f(x, y):
        x.add_(1)
        return x + y

    memory = torch.arange(6.0, device=DEVICE)
    reference = torch.arange(6.0)
    out = f(memory[:4], memory[2:])
    reference[:4].add_(1)
    torch.testing.assert_close(memory.cpu(), reference)
    torch.testing.assert_close(out.cpu(), reference[:4] + reference[2:])


def test_result_that_is_a_view_of_an_argument():
    f = compiled(lambda x: x.t())
    x = torch.arange(6.0, device=DEVICE).view(2, 3)
    y = f(x)
    y.add_(1)
    torch.testing.assert_close(x.cpu(), torch.arange(6.0).view(2, 3) + 1)


def test_results_that_share_memory():
    @compiled
    def f(x):
        y = x * 2
        return y, y.t(), y[0]

    y, transposed, row = f(torch.arange(6.0, device=DEVICE).view(2, 3))
    y.add_(1)
    expected = torch.arange(6.0).view(2, 3) * 2 + 1
    torch.testing.assert_close(transposed.cpu(), expected.t())
    torch.testing.assert_close(row.cpu(), expected[0])


def test_argument_is_given_other_data():
    @compiled
    def f(x):
        x.data = x.data + 1
        return x.sum()

    x = torch.zeros(4, device=DEVICE)
    assert f(x).item() == 4
    assert x.cpu().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_strides_are_those_of_eager(memory_format):
    conv = nn.Conv2d(3, 4, 3, padding=1).to(DEVICE)
    x = torch.randn(2, 3, 5, 5, device=DEVICE).contiguous(memory_format=memory_format)
    with torch.no_grad():
        eager, fast = conv(x), compiled(conv)(x)
    assert fast.stride() == eager.stride()
    torch.testing.assert_close(fast, eager)


def test_batch_norm_statistics():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    twin = copy.deepcopy(model).to(DEVICE)
    fast = compiled(twin)
    for _ in range(3):
        x = torch.randn(2, 3, 6, 6)
        torch.testing.assert_close(fast(x.to(DEVICE)).cpu(), model(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(twin[1].running_var.cpu(), model[1].running_var)
    assert twin[1].num_batches_tracked.item() == 3


# XLA's simplifier would make other numbers of these.
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
def test_operators_round_and_overflow_one_by_one(function):
    x = torch.ones(3)
    assert torch.equal(compiled(function)(x.to(DEVICE)).cpu(), function(x))


# ---- numbers that change


def test_float_argument_compiles_nothing_new():
    f = compiled(lambda x, c: x * c)
    x = torch.ones(4, device=DEVICE)
    for c in (0.1, 0.2, 0.3):
        f(x, c)

    def later():
        for i in range(10):
            torch.testing.assert_close(f(x, i + 0.5).cpu(), torch.full((4,), i + 0.5))

    assert count("compiles", later) == 0


def test_position_compiles_nothing_new():
    @compiled
    def f(cache, i, row):
        cache[i] = row
        return cache.sum(1)

    cache, row = torch.zeros(32, 4, device=DEVICE), torch.ones(4, device=DEVICE)
    for i in range(4):
        f(cache, i, row)

    def later():
        for i in range(4, 32):
            assert f(cache, i, row).sum().item() == 4 * (i + 1)

    f(cache, 4, row).sum().item()
    assert count("compiles", later) == 0


@pytest.mark.parametrize("dynamic", [None, True])
def test_changing_sizes(dynamic):
    f = compiled(lambda x: torch.softmax(x, -1) @ x.t(), dynamic=dynamic)
    for n in (3, 5, 8, 3):
        x = torch.randn(2, n)
        torch.testing.assert_close(f(x.to(DEVICE)).cpu(), torch.softmax(x, -1) @ x.t())


# ---- random numbers


def test_random_numbers_are_those_of_eager():
    def f(x):
        return torch.dropout(x, 0.5, True) + torch.randn_like(x)

    x = torch.ones(64, device=DEVICE)
    torch.manual_seed(3)
    eager = [f(x), f(x)]
    torch.manual_seed(3)
    fast = compiled(f)
    both = [fast(x), fast(x)]
    for a, b in zip(eager, both, strict=True):
        torch.testing.assert_close(a, b)
    assert not torch.equal(both[0], both[1])


def test_dropout_has_one_mask_in_forward_and_backward():
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = compiled(lambda x: F.dropout(x, 0.5))(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


# ---- what cannot be one program


def test_filling_by_a_mask_is_one_program():
    @compiled(fullgraph=True, options={"one_program": True})
    def f(x):
        y = x * 2
        y[x > 0] = 0
        return y

    x = torch.randn(16)
    torch.testing.assert_close(f(x.to(DEVICE)).cpu(), torch.where(x > 0, 0, 2 * x))


def test_value_on_the_host_in_the_middle():
    def f(x):
        return torch.linalg.svdvals(x.sin()).cos()

    x = torch.randn(4, 4)
    fast = compiled(f, fullgraph=True)
    torch.testing.assert_close(fast(x.to(DEVICE)).cpu(), f(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fast(x.to(DEVICE)).cpu(), f(x), rtol=1e-4, atol=1e-5)


def test_one_program_or_an_error():
    fast = compiled(lambda x: torch.linalg.svdvals(x), options={"one_program": True})
    with pytest.raises(RuntimeError, match=r"cannot be one program.*linalg"):
        fast(torch.randn(4, 4, device=DEVICE))


def test_graph_break():
    @compiled
    def f(x):
        y = x + 1
        return y * 2 if y.sum().item() > 0 else y * 3

    assert f(torch.ones(2, device=DEVICE)).cpu().tolist() == [4, 4]
    assert f(-2 * torch.ones(2, device=DEVICE)).cpu().tolist() == [-3, -3]


def test_custom_operator_runs_between_programs():
    @torch.library.custom_op("torch_tpu_test::host_sum", mutates_args=())
    def host_sum(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x.cpu().sum().item(), device=x.device)

    host_sum.register_fake(lambda x: x.new_empty(()))
    fast = compiled(lambda x: host_sum(x * 2) + 1, fullgraph=True)
    assert fast(torch.ones(4, device=DEVICE)).item() == 9


def test_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    fast = compiled(f, fullgraph=True)
    for sign in (1.0, -1.0):
        x = sign * torch.ones(3)
        torch.testing.assert_close(fast(x.to(DEVICE)).cpu(), f(x))


# ---- errors, modes, other devices


def test_index_error_surfaces():
    table = torch.randn(4, 2, device=DEVICE)
    f = compiled(lambda i: F.embedding(i, table) * 2)
    f(torch.tensor([1, 3], device=DEVICE)).cpu()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        f(torch.tensor([1, 9], device=DEVICE)).cpu()
    assert f(torch.tensor([0], device=DEVICE)).shape == (1, 2)


def test_unknown_mode_and_option():
    x = torch.ones(2, device=DEVICE)
    with pytest.raises(Exception, match="one_program"):
        compiled(lambda x: x + 1, options={"no_such": 1})(x)
    for mode in ("default", "reduce-overhead", "max-autotune"):
        torch._dynamo.reset()
        assert compiled(lambda x: x + 1, mode=mode)(x).cpu().tolist() == [2, 2]


def test_other_devices_are_untouched():
    f = torch.compile(lambda x: x + 1, backend="aot_eager")
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert compiled(lambda x: x + 1)(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize("mode", list(torch.tpu.EagerMode))
def test_every_eager_mode(mode):
    f = compiled(lambda x: (x * 2).relu())
    with torch.tpu.eager_mode(mode):
        x = torch.arange(-2.0, 2.0, device=DEVICE) + 1
        y = f(x) + 1
        assert y.cpu().tolist() == [1, 1, 3, 5]


def test_cpu_arguments_and_results():
    f = compiled(lambda x, y: (x + y, y * 2), fullgraph=True)
    on_device, on_host = f(torch.ones(2, device=DEVICE), torch.tensor(3.0))
    assert on_device.cpu().tolist() == [4, 4]
    assert on_host.device.type == "cpu"
    assert on_host.item() == 6
