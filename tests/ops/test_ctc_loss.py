"""ctc_loss: values, gradients and errors, for lengths that OpInfo does not sample."""

import pytest
import torch
from compare import check

torch.manual_seed(0)
LOG_P = torch.randn(8, 4, 5).log_softmax(2)
PADDED = torch.tensor([[1, 1, 3], [2, 4, 1], [3, 3, 3], [4, 2, 1]])
JOINED = torch.tensor([1, 2, 2, 3, 1, 4, 4])
INF = float("inf")


def loss_and_gradient(log_p, targets, inputs, lengths, blank=0, zero_infinity=False):
    log_p = log_p.detach().requires_grad_()
    loss = torch.nn.functional.ctc_loss(
        log_p, targets, inputs, lengths, blank, "none", zero_infinity
    )
    weight = torch.arange(1.0, loss.numel() + 1, device=loss.device).view_as(loss)
    return loss.detach(), torch.autograd.grad((loss * weight).sum(), log_p)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize(
    ("inputs", "lengths"),
    [
        ([8, 8, 8, 8], [3, 2, 1, 0]),
        ([8, 6, 2, 0], [3, 2, 3, 0]),  # too short for its target, and empty
        ([8, 3, 1, 1], [3, 0, 1, 0]),
    ],
)
def test_lengths(inputs, lengths, zero_infinity):
    check(loss_and_gradient, LOG_P, PADDED, inputs, lengths, 0, zero_infinity)
    check(
        loss_and_gradient,
        LOG_P,
        PADDED,
        torch.tensor(inputs),
        torch.tensor(lengths),
        0,
        zero_infinity,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_targets_one_after_the_other(dtype):
    check(loss_and_gradient, LOG_P, JOINED.to(dtype), [8, 8, 7, 4], [3, 1, 1, 2])


def test_other_blank_and_float64_and_one_sample():
    check(loss_and_gradient, LOG_P, PADDED - 1, [8, 8, 7, 4], [3, 1, 1, 2], 4)
    check(loss_and_gradient, LOG_P.double(), JOINED, [8, 8, 7, 4], [3, 1, 1, 2])
    check(loss_and_gradient, LOG_P[:, 0], PADDED[0], torch.tensor(8), torch.tensor(3))


def test_impossible_label():
    log_p = LOG_P.clone()
    log_p[2, 0, 2] = -INF
    check(loss_and_gradient, log_p, PADDED, [8, 8, 7, 4], [3, 1, 1, 2])


@pytest.mark.parametrize(
    ("log_p", "targets", "inputs", "lengths", "blank"),
    [
        (LOG_P, PADDED, [8] * 3, [1] * 4, 0),
        (LOG_P, PADDED, [8] * 4, [1] * 3, 0),
        (LOG_P, PADDED, [9] * 4, [1] * 4, 0),
        (LOG_P, PADDED, [-1] * 4, [1] * 4, 0),
        (LOG_P, PADDED, [8] * 4, [-1] * 4, 0),
        (LOG_P, PADDED, [8] * 4, [4] * 4, 0),
        (LOG_P, PADDED, [8] * 4, [1] * 4, 7),
        (LOG_P, JOINED, [8] * 4, [1] * 4, 0),
        (LOG_P[:, :0], PADDED[:0], [], [], 0),
        (LOG_P[:0], PADDED, [0] * 4, [0] * 4, 0),
        (LOG_P.half(), PADDED, [8] * 4, [1] * 4, 0),
    ],
)
def test_errors(log_p, targets, inputs, lengths, blank):
    check(torch._ctc_loss, log_p, targets, inputs, lengths, blank)


def test_other_lengths_compile_nothing():
    log_p, targets = LOG_P.to("tpu"), PADDED.to("tpu")
    torch._ctc_loss(log_p, targets, [8, 8, 8, 8], [3, 2, 1, 0])
    torch.tpu.reset_counters()
    torch._ctc_loss(log_p, targets, [7, 6, 5, 4], [1, 3, 2, 2])
    assert torch.tpu.counters()["compiles"] == 0


def test_label_out_of_range_raises():
    targets = torch.tensor([[9, 1, 1]] * 4, device="tpu")
    loss, _ = torch._ctc_loss(LOG_P.to("tpu"), targets, [8] * 4, [3] * 4)
    with pytest.raises(IndexError, match="9"):
        loss.cpu()
