"""Dynamo knows our device interface, and not the one that torch brings."""


def test_ours_is_used(run_python):
    run_python("""
        import sys, torch
        import torch._dynamo
        from torch._dynamo.device_interface import get_interface_for_device
        interface = get_interface_for_device("tpu")
        assert interface.__module__ == "torch_tpu._dynamo_interface"
        assert not [f for f in sys.meta_path if type(f).__module__.startswith("torch_tpu")]
        assert interface.Stream is torch.tpu.Stream and interface.Event is torch.tpu.Event
        assert interface.is_dtype_supported(torch.float64)
        assert interface.current_device() == 0 and interface.device_count() == 1
        assert interface.exchange_device(0) == 0
        interface.synchronize()
        assert get_interface_for_device("cpu").__module__ == "torch._dynamo.device_interface"
    """)


def test_ours_is_used_where_dynamo_came_first(run_python):
    run_python(
        """
        import torch, torch._dynamo
        torch._dynamo.device_interface.init_device_reg()
        import torch_tpu
        interface = torch._dynamo.device_interface.get_interface_for_device("tpu")
        assert interface.__module__ == "torch_tpu._dynamo_interface"
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_eager_backend_compiles(run_python):
    run_python("""
        import torch

        @torch.compile(backend="eager")
        def f(x):
            with torch.tpu.device(0):
                y = x + 1
            return y.sin()

        x = torch.ones(3, device="tpu")
        assert torch.equal(f(x), (x + 1).sin())
    """)


def test_generators_are_graphsafe(run_python):
    run_python("""
        import torch
        from torch._functorch._aot_autograd.utils import supports_graphsafe_rng
        assert supports_graphsafe_rng(torch.device("tpu"))
    """)


def test_recomputed_dropout_draws_the_same(run_python):
    run_python("""
        import torch
        from torch.utils.checkpoint import checkpoint

        def f(x):
            return torch.nn.functional.dropout(x, 0.5) * 3

        for backend in (None, "aot_eager"):
            fn = f if backend is None else torch.compile(f, backend=backend)
            x = torch.ones(64, device="tpu", requires_grad=True)
            y = checkpoint(fn, x, use_reentrant=False)
            y.sum().backward()
            assert torch.equal(x.grad, y.detach())
    """)
