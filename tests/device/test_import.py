"""Importing: it registers the device, and does nothing else."""

import pytest

ORDERS = ["import torch", "import torch_tpu", "import torch_tpu, torch", "import torch, torch_tpu"]


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_registers_the_device(run_python, order):
    run_python(f"""
        {order}
        import torch
        assert torch.device("tpu:3").type == "tpu"
        assert torch.tpu.is_available()
        assert torch.accelerator.current_accelerator().type == "tpu"
        assert torch.utils.backend_registration._privateuse1_backend_name == "tpu"
    """)


def test_import_starts_nothing(run_python):
    result = run_python("""
        import os, threading
        import torch
        assert not torch.tpu.is_initialized()
        assert torch.tpu.is_available() and torch.tpu.device_count() == 1
        torch.manual_seed(3)
        torch.tpu.get_rng_state()
        assert torch.tpu.memory_allocated() == 0
        assert not torch.tpu.is_initialized()
        assert threading.active_count() == 1
        maps = open("/proc/self/maps").read()
        assert "pjrt" not in maps.replace("libtorch_tpu", ""), "a plugin is loaded"
    """)
    assert result.stderr == ""


def test_import_spawns_no_thread(run_python):
    count = "import os, torch; print(len(os.listdir('/proc/self/task')))"
    with_it = run_python(count).stdout
    without = run_python(count, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout
    assert with_it == without


def test_import_does_not_import_dynamo_nor_the_plugin(run_python):
    run_python("""
        import sys, torch
        assert "torch_tpu" in sys.modules
        assert "torch._dynamo" not in sys.modules
        assert not [m for m in sys.modules if m.startswith(("fastatomstruct", "xla_plugins"))]
    """)


def test_autoload_can_be_turned_off(run_python):
    run_python(
        """
        import sys, torch
        assert "torch_tpu" not in sys.modules
        assert not hasattr(torch, "tpu")
        import torch_tpu
        assert torch.tpu.is_available()
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_import_never_raises_when_the_library_is_broken(run_python):
    result = run_python("""
        import sys
        sys.modules["torch_tpu._C"] = None  # makes its import fail
        import torch
        assert not torch.tpu.is_available() and torch.tpu.device_count() == 0
        torch.manual_seed(0)
        try:
            torch.tpu.synchronize()
        except RuntimeError as error:
            assert "torch_tpu._C cannot be loaded" in str(error), error
        else:
            raise AssertionError("no error")
    """)
    assert "torch_tpu._C cannot be loaded" in result.stderr


def test_import_never_raises_with_another_torch(run_python):
    result = run_python(
        """
        import torch
        torch.__version__ = "9.9.0"
        import torch_tpu
        assert not torch.tpu.is_available()
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "built for torch 2.13, but this is torch 9.9.0" in result.stderr


def test_a_second_backend_is_a_warning(run_python):
    result = run_python(
        """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        import torch_tpu
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert "could not register the tpu device" in result.stderr


def test_submodules_are_importable_by_name(run_python):
    run_python("""
        import torch
        import torch.tpu.memory, torch.tpu.random, torch.tpu.amp
        from torch.tpu.amp import autocast, GradScaler
        assert torch.tpu.memory.__name__ == "torch_tpu.tpu.memory"
    """)


def test_generated_methods():
    import torch

    for owner in (torch.Tensor, torch.nn.Module, torch.UntypedStorage, torch.TypedStorage):
        assert hasattr(owner, "tpu")
    assert not torch.empty(1).is_tpu
    assert torch._C._get_privateuse1_backend_name() == "tpu"
    assert torch.profiler.ProfilerActivity.PrivateUse1 == torch.profiler.ProfilerActivity.TPU
