"""Streams and events: they order nothing anew, but they have names, wait and tell the time."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("busy")


@pytest.fixture
def busy():
    """Leaves some work behind, so that there is something to wait for."""
    x = torch.ones(256, 256, device="tpu")
    return x @ x


def test_streams_have_names():
    streams = [torch.tpu.Stream() for _ in range(3)] + [torch.tpu.Stream("tpu:0", priority=-1)]
    assert len({s.stream_id for s in streams}) == len(streams)
    assert all(isinstance(s, torch.Stream) and s.device.type == "tpu" for s in streams)
    assert torch.tpu.default_stream() not in streams
    assert torch.tpu.default_stream().stream_id == 0
    assert torch.tpu.current_stream() == torch.tpu.default_stream()


def test_stream_context():
    stream = torch.tpu.Stream()
    default = torch.tpu.current_stream()
    with torch.tpu.stream(stream) as inside:
        assert inside is stream
        assert torch.tpu.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
        y = torch.ones(3, device="tpu") + 1
    assert torch.tpu.current_stream() == default
    assert y.tolist() == [2, 2, 2]
    with torch.tpu.stream(None):
        assert torch.tpu.current_stream() == default
    with stream:
        assert torch.tpu.current_stream() == stream
    assert torch.tpu.current_stream() == default


def test_set_stream():
    stream = torch.tpu.Stream()
    default = torch.tpu.current_stream()
    torch.tpu.set_stream(stream)
    assert torch.tpu.current_stream() == stream
    torch.tpu._set_stream_by_id(default.stream_id, default.device_index, default.device_type)
    assert torch.tpu.current_stream() == default


def test_streams_wait(busy):
    one, two = torch.tpu.Stream(), torch.tpu.Stream()
    one.wait_stream(two)
    event = one.record_event()
    two.wait_event(event)
    one.synchronize()
    assert one.query() and event.query()
    assert not one.is_capturing()
    busy.record_stream(one)


def test_event_waits():
    x = torch.ones(1024, 1024, device="tpu")
    y = x
    for _ in range(4):
        y = y @ x
    event = torch.tpu.Event()
    event.record()
    event.synchronize()
    assert event.query()
    assert y[0, 0].item() == 1024.0**4


def test_event_that_was_never_recorded():
    event = torch.tpu.Event()
    assert event.query()
    event.synchronize()
    event.wait()


def test_elapsed_time():
    start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    x = torch.ones(1024, 1024, device="tpu")
    (x @ x).cpu()  # compiled now
    start.record()
    y = x @ x
    end.record()
    end.synchronize()
    torch.tpu.synchronize()
    elapsed = start.elapsed_time(end)
    assert 0.01 < elapsed < 60_000
    del y


def test_elapsed_time_needs_timing():
    start, end = torch.tpu.Event(), torch.tpu.Event()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        start.elapsed_time(end)


def test_cuda_like_signatures():
    assert isinstance(torch.tpu.Event(True, True, False), torch.Event)
    assert isinstance(torch.tpu.Stream(0), torch.Stream)
    assert torch.tpu.Stream.priority_range() == (0, 0)
    event = torch.Event("tpu")
    event.record(torch.tpu.Stream())
    event.synchronize()


def test_synchronize():
    torch.tpu.synchronize()
    torch.tpu.synchronize("tpu:0")
    torch.tpu.synchronize(torch.device("tpu"))
    torch.accelerator.synchronize()


def test_another_thread_runs_during_a_wait():
    """The GIL is released: a thread that only counts makes progress while we wait."""
    import threading

    x = torch.ones(1500, 1500, device="tpu")
    (x @ x).cpu()
    counted = 0
    stop = threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        y = x
        for _ in range(4):
            y = y @ x
        before = counted
        torch.tpu.synchronize()
        during = counted - before
    finally:
        stop.set()
        thread.join()
    assert during > 1000
