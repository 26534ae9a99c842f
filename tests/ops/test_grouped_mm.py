"""torch.nn.functional.grouped_mm: groups of any size, empty ones too, in one program."""

import pytest
import torch
import torch.nn.functional as F


def cases(dtype):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)

    ends = torch.tensor([3, 3, 140, 304], dtype=torch.int32)
    yield draw(304, 8), draw(4, 8, 16), ends  # rows by matrices
    yield draw(8, 304), draw(304, 16), ends  # sums of groups
    yield draw(4, 8, 16), draw(16, 304), ends  # matrices by columns
    # Rows of the result that are padded in memory.
    yield draw(304, 8), draw(4, 5, 8).transpose(1, 2), ends
    yield draw(6, 8), draw(2, 8, 8).transpose(1, 2), torch.tensor([0, 6], dtype=torch.int32)
    yield draw(6, 8), draw(3, 8, 8), torch.tensor([2, 4, 6], dtype=torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("compiled", [False, True])
def test_products_are_those_of_the_cpu(dtype, case, compiled):
    a, b, ends = list(cases(dtype))[case]
    expected = F.grouped_mm(a, b, offs=ends)
    function = F.grouped_mm
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(function, backend="tpu", fullgraph=True)
    fallbacks = torch.tpu.counters()["cpu_fallbacks"]
    result = function(a.to("tpu"), b.to("tpu"), offs=ends.to("tpu"))
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected)
    assert torch.tpu.counters()["cpu_fallbacks"] == fallbacks


def test_gradients():
    a, b, ends = next(cases(torch.float32))
    gradients = {}
    for device in ("cpu", "tpu"):
        x, w = (t.clone().to(device).requires_grad_() for t in (a, b))
        F.grouped_mm(x, w, offs=ends.to(device)).square().sum().backward()
        gradients[device] = (x.grad.cpu(), w.grad.cpu())
    torch.testing.assert_close(gradients["tpu"], gradients["cpu"], rtol=1e-5, atol=1e-4)


def test_infinities_stay_in_their_group():
    a, b = torch.ones(4, 4), torch.ones(2, 4, 4)
    b[1] = float("inf")
    ends = torch.tensor([2, 4], dtype=torch.int32)
    expected = F.grouped_mm(a, b, offs=ends)
    assert torch.equal(F.grouped_mm(a.to("tpu"), b.to("tpu"), offs=ends.to("tpu")).cpu(), expected)


def test_float64_which_the_cpu_lacks():
    a, b, ends = next(cases(torch.float64))
    expected = torch.cat([a[:3] @ b[0], a[3:140] @ b[2], a[140:] @ b[3]])
    torch.testing.assert_close(
        F.grouped_mm(a.to("tpu"), b.to("tpu"), offs=ends.to("tpu")).cpu(), expected
    )


def test_errors_are_those_of_the_cpu():
    ends = torch.tensor([2, 4], dtype=torch.int32)
    for a, b in (
        (torch.ones(4, 5), torch.ones(2, 5, 8)),
        (torch.ones(4, 8), torch.ones(2, 4, 8)),
        (torch.ones(4, 8), torch.ones(3, 8, 8)),
    ):
        messages = []
        for device in ("cpu", "tpu"):
            with pytest.raises(RuntimeError) as raised:
                F.grouped_mm(a.to(device), b.to(device), offs=ends.to(device))
            messages.append(str(raised.value))
        assert messages[0] == messages[1]
