"""Several threads use the device at once."""

import threading

import torch
from torch.nn import functional as F

THREADS = 4
ROUNDS = 6


def run_in_threads(work):
    """Runs work(number) in threads that start together; raises what one of them raises."""
    start, errors = threading.Barrier(THREADS), []

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_same_programs_and_own_tensors():
    """All threads miss the same keys, and each gets its own numbers."""

    def work(number):
        for i in range(1, ROUNDS):
            x = torch.full((i, 7), float(number), device="tpu")
            y = (x * 2 + number).sum(1)
            assert y.tolist() == [7.0 * 3 * number] * i
            x[:, 1] = 5
            assert x[0].tolist() == [number, 5, *[number] * 5]

    run_in_threads(work)


def test_one_tensor_is_read_by_all():
    shared = torch.arange(64.0, device="tpu")

    def work(number):
        for i in range(ROUNDS):
            assert (shared + number)[i].item() == i + number
            assert shared[number::2].sum().item() == sum(range(number, 64, 2))

    run_in_threads(work)


def test_adding_to_one_tensor_loses_nothing():
    """A call is one step for the device: threads that add in place do not overwrite each other."""
    total = torch.zeros(3, device="tpu")

    def work(number):
        for _ in range(50):
            total.add_(1)

    run_in_threads(work)
    assert total.tolist() == [50 * THREADS] * 3


def test_training_in_each_thread():
    def train(number, device):
        generator = torch.Generator().manual_seed(number)
        x, w = (torch.randn(s, generator=generator).to(device) for s in [(8, 4), (3, 4)])
        w.requires_grad_()
        target = torch.arange(8).remainder(3).to(device)
        optimizer = torch.optim.Adam([w], lr=0.1)
        for _ in range(ROUNDS):
            optimizer.zero_grad()
            F.cross_entropy(F.linear(x, w), target).backward()
            optimizer.step()
        return w.detach().cpu()

    run_in_threads(
        lambda number: torch.testing.assert_close(train(number, "tpu"), train(number, "cpu"))
    )


def test_settings_and_statistics():
    def work(number):
        for i in range(ROUNDS):
            with torch.random.fork_rng(devices=[0], device_type="tpu"):
                torch.rand(4, device="tpu")
            kept = [torch.empty(i + 1, device="tpu") for _ in range(4)]
            assert torch.tpu.memory_allocated() > 0
            torch.tpu.synchronize()
            torch.tpu.counters()
            del kept

    run_in_threads(work)
