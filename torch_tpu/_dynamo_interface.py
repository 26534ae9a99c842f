"""What Dynamo must know of the device, and the backend ``"tpu"``.

Torch 2.13 brings an interface for "tpu" of its own, without streams, events and synchronize. Ours
takes its place in Dynamo's table when Dynamo is imported, and not before: `import torch` must not
pay for Dynamo.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from torch_tpu._when_imported import when_imported


def make_interface(base: type) -> type:
    """The device interface, derived from Dynamo's ``DeviceInterface``."""
    from torch_tpu import tpu

    class TpuInterface(base):
        device = tpu.device
        Event = tpu.Event
        Stream = tpu.Stream
        current_device = staticmethod(tpu.current_device)
        set_device = staticmethod(tpu.set_device)
        exchange_device = staticmethod(tpu._exchange_device)
        maybe_exchange_device = staticmethod(tpu._maybe_exchange_device)
        device_count = staticmethod(tpu.device_count)
        is_available = staticmethod(tpu.is_available)
        stream = staticmethod(tpu.stream)
        current_stream = staticmethod(tpu.current_stream)
        set_stream = staticmethod(tpu.set_stream)
        _set_stream_by_id = staticmethod(tpu._set_stream_by_id)
        synchronize = staticmethod(tpu.synchronize)
        get_device_properties = staticmethod(tpu.get_device_properties)
        memory_allocated = staticmethod(tpu.memory_allocated)
        is_bf16_supported = staticmethod(tpu.is_bf16_supported)

        class Worker:
            """Answers in compile workers, which have no device."""

            set_device = staticmethod(tpu.set_device)
            current_device = staticmethod(tpu.current_device)
            get_device_properties = staticmethod(tpu.get_device_properties)

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return tpu.current_stream(device_idx).stream_id

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return ""

        @classmethod
        def is_dtype_supported(cls, dtype: torch.dtype, including_emulation: bool = False) -> bool:
            return dtype in tpu.supported_dtypes()

        @staticmethod
        def is_triton_capable(device: Any = None) -> bool:
            return False

    return TpuInterface


def _install(module: ModuleType) -> None:
    """Puts ours where Dynamo takes its own from; the table itself is made at its first use."""
    interface = make_interface(module.DeviceInterface)
    module.TpuInterface = interface
    if module._device_initialized:
        module.register_interface_for_device("tpu", interface)


def _register_generators(module: ModuleType) -> None:
    """Lets recomputed graphs restore the generator's state instead of copying it."""
    module.register_graphsafe_rng_device_type("tpu")


def _register_backend(module: ModuleType) -> None:
    """Registers ``backend="tpu"`` without importing the compiler."""

    def tpu(*args: Any, **kwargs: Any) -> Any:
        from torch_tpu import compiler

        return compiler.tpu(*args, **kwargs)

    module.register_backend(compiler_fn=tpu, name="tpu")


def _register_fakes(module: ModuleType) -> None:
    """Results of operators that PyTorch's meta kernels refuse though the device has them."""

    @module.register_op_impl(torch.ops.aten._grouped_mm.default)
    def grouped_mm(
        fake_mode: Any,
        func: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        offs: torch.Tensor | None = None,
        bias: torch.Tensor | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Any:
        # The meta kernel takes bfloat16 only.
        if a.device.type != "tpu" or offs is None or a.dtype != b.dtype:
            return NotImplemented
        if a.dim() == 2 and b.dim() == 2:
            sizes = [offs.size(0), a.size(0), b.size(1)]
        else:
            sizes = [a.size(0) if a.dim() == 2 else a.size(1), b.size(-1)]
        dtype = out_dtype or a.dtype
        align = 16 // dtype.itemsize  # rows begin at multiples of 16 bytes
        row = (sizes[-1] + align - 1) // align * align
        strides = [row, 1] if len(sizes) == 2 else [sizes[1] * row, row, 1]
        with fake_mode:
            return torch.empty_strided(sizes, strides, dtype=dtype, device=a.device)


def register_when_imported() -> None:
    """Arranges for all to be registered as soon as torch imports the places for them."""
    when_imported("torch._dynamo.device_interface", _install)
    when_imported("torch._dynamo.backends.registry", _register_backend)
    when_imported("torch._subclasses.fake_impls", _register_fakes)
    when_imported("torch._functorch._aot_autograd.utils", _register_generators)
