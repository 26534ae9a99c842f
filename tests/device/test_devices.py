"""Devices: current ones, contexts, properties."""

import pytest
import torch

two_devices = {"TORCH_TPU_CPU_DEVICES": "2"}


def test_counts():
    assert torch.tpu.device_count() == torch.accelerator.device_count() >= 1
    assert torch.tpu.current_device() == torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("use", ["torch.tpu.set_device(99)", "torch.empty(2, device='tpu:99')"])
@pytest.mark.parametrize("started", [False, True])
def test_no_such_device(run_python, use, started):
    run_python(f"""
        import torch
        if {started}:
            torch.tpu.init()
        try:
            {use}
        except RuntimeError as error:
            text = str(error)
        assert text.startswith("tpu:99 does not exist: there is 1 tpu device (tpu:0)."), text
        assert "TORCH_TPU_CPU_DEVICES" in text
        assert torch.tpu.current_device() == 0
        torch.empty(2, device="tpu")
    """)


@pytest.mark.parametrize("bad", ["cpu", "cuda:0", 1.5, True, object()])
def test_devices_of_another_kind(bad):
    with pytest.raises(ValueError, match="Expected a tpu device"):
        torch.tpu.get_device_name(bad)


def test_get_device_index():
    index = torch.tpu._utils._get_device_index
    assert index(3) == index("tpu:3") == index(torch.device("tpu:3")) == 3
    assert index(None, optional=True) == index("tpu", optional=True) == 0
    assert index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="with an index"):
        index("tpu")


def test_contexts(run_python):
    run_python(
        """
        import torch
        assert torch.tpu.current_device() == 0
        with torch.tpu.device(1):
            assert torch.tpu.current_device() == 1
            assert torch.empty(1, device="tpu").device == torch.device("tpu:1")
            with torch.tpu.device("tpu:0"):
                assert torch.tpu.current_device() == 0
            with torch.tpu.device(None):
                assert torch.tpu.current_device() == 1
            with torch.tpu.device(-1):
                assert torch.tpu.current_device() == 1
        assert torch.tpu.current_device() == 0
        x = torch.empty(1, device="tpu:1")
        with torch.tpu.device_of(x):
            assert torch.tpu.current_device() == 1
        with torch.tpu.device_of(torch.empty(1)):
            assert torch.tpu.current_device() == 0
        with torch.accelerator.device_index(1):
            assert torch.tpu.current_device() == 1
        assert torch.tpu._exchange_device(1) == 0
        assert torch.tpu._maybe_exchange_device(-1) == 1
        assert torch.tpu._maybe_exchange_device(0) == 1
        with torch.device("tpu:1"):
            assert torch.empty(1).device == torch.device("tpu:1")
        """,
        **two_devices,
    )


def test_current_device_is_of_a_thread(run_python):
    run_python(
        """
        import threading, torch
        torch.tpu.set_device(1)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_device()))
        thread.start()
        thread.join()
        assert seen == [0] and torch.tpu.current_device() == 1
        """,
        **two_devices,
    )


def test_properties():
    properties = torch.tpu.get_device_properties()
    assert properties == torch.tpu.get_device_properties("tpu:0")
    assert properties.name == torch.tpu.get_device_name()
    assert properties.total_memory == torch.tpu.mem_get_info()[1] > 0
    assert properties.multi_processor_count >= 1
    assert torch.tpu.get_device_capability() == (properties.major, properties.minor)
    if not properties.is_tpu:
        assert "not a TPU" in properties.name
        assert torch.tpu.get_device_capability() == (0, 0)


def test_names_of_tpus():
    from torch_tpu.tpu.devices import _generation, _name_of

    names = {
        "TPU v4": "TPU v4",
        "TPU v5 lite": "TPU v5e",
        "TPU v5": "TPU v5p",
        "TPU v6 lite": "TPU v6e",
    }
    for kind, name in names.items():
        assert _name_of({"kind": kind, "platform": "tpu"}) == name
        assert _generation(name) == int(kind[5])


def test_capability_says_what_types_there_are():
    capability = torch.accelerator.get_device_capability("tpu")
    types = capability["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.bool} <= types
    assert not {torch.quint8, torch.complex32} & types


def test_accelerator_is_the_device(run_python):
    run_python("""
        import torch
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("tpu")
        torch.accelerator.synchronize()
        torch.accelerator.set_device_index(0)
        assert torch.get_device_module("tpu") is torch.tpu is torch.get_device_module()
    """)


def test_names_that_other_code_calls():
    names = [
        "is_available",
        "is_initialized",
        "init",
        "_lazy_init",
        "device_count",
        "current_device",
        "set_device",
        "synchronize",
        "device",
        "device_of",
        "stream",
        "Stream",
        "Event",
        "current_stream",
        "default_stream",
        "set_stream",
        "_set_stream_by_id",
        "get_device_name",
        "get_device_properties",
        "get_device_capability",
        "is_bf16_supported",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "get_rng_state_all",
        "set_rng_state_all",
        "default_generators",
        "_get_generator",
        "_is_in_bad_fork",
        "get_amp_supported_dtype",
        "memory_allocated",
        "memory_reserved",
        "max_memory_allocated",
        "max_memory_reserved",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "reset_max_memory_allocated",
        "memory_stats",
        "memory_summary",
        "mem_get_info",
        "empty_cache",
        "_utils",
        "_exchange_device",
        "_maybe_exchange_device",
        "amp",
        "random",
        "memory",
        "counters",
        "reset_counters",
        "fallback_ops",
        "ipc_collect",
        "can_device_access_peer",
        "get_arch_list",
        "StreamContext",
        "OutOfMemoryError",
        "is_current_stream_capturing",
        "to_dlpack",
    ]
    missing = [name for name in names if not hasattr(torch.tpu, name)]
    assert not missing


def test_counters(run_python):
    run_python("""
        import torch
        names = {"compiles", "executions", "cache_hits", "disk_cache_hits", "cpu_fallbacks"}
        assert names <= torch.tpu.counters().keys()
        assert all(torch.tpu.counters()[name] == 0 for name in names)
        x = torch.ones(3, device="tpu") + 1
        x.cpu()
        assert torch.tpu.counters()["executions"] > 0
        torch.tpu.reset_counters()
        assert all(torch.tpu.counters()[name] == 0 for name in names)
        assert torch.tpu.fallback_ops() == {}
    """)
