"""What happens when the plugin has no device memory left. The fault plugin (tests/pjrt) plays it;
TORCH_TPU_TEST_FAULT_PLUGIN names it."""

import os

import pytest

from torch_tpu import _plugin

FAULT_PLUGIN = os.environ.get("TORCH_TPU_TEST_FAULT_PLUGIN", "")
pytestmark = pytest.mark.skipif(not FAULT_PLUGIN, reason="needs the fault plugin")

HEAD = """
import ctypes, os, pytest, torch

plugin = ctypes.CDLL(os.environ["TORCH_TPU_PJRT_PLUGIN"])
plugin.fault_set.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int64]
plugin.fault_set.restype = ctypes.c_bool
plugin.fault_calls.restype = ctypes.c_int64
FAIL, EXHAUSTED = 1, 8

def fail(point, nth):
    assert plugin.fault_set(point, nth, FAIL, EXHAUSTED)

x = torch.arange(6.0, device="tpu")
y = x.sin()
y.cpu()
want = x.cpu().sin() * 2
torch.tpu.synchronize()
"""


@pytest.fixture
def run_faulty(run_python):
    def run(code, **env):
        env |= {"TORCH_TPU_PJRT_PLUGIN": FAULT_PLUGIN, "TORCH_TPU_CACHE": "0"}
        run_python(HEAD + code, FAULT_TARGET=_plugin.find_cpu_plugin(), **env)

    return run


@pytest.mark.parametrize("mode", ["DEFER_NEVER", "DEFER_AND_FUSE"])
@pytest.mark.parametrize("point", ["execute", "compile", "buffer_from_host"])
def test_it_is_tried_once_more(run_faulty, point, mode):
    """After the programs that nobody uses have been dropped."""
    run_faulty(
        f"""
torch.tpu.set_eager_mode(torch.tpu.EagerMode.{mode})
fail(b"{point}", 0)
calls = plugin.fault_calls(b"{point}")
y.mul_(torch.tensor([2.0], device="tpu"))
torch.testing.assert_close(y.cpu(), want)
assert plugin.fault_calls(b"{point}") > calls + 1
assert torch.tpu.memory_stats()["num_ooms"] == 0
"""
    )


@pytest.mark.parametrize("point", ["execute", "buffer_from_host"])
def test_the_error_says_who_has_the_memory(run_faulty, point):
    run_faulty(
        f"""
big = [torch.empty(3 << 20, dtype=torch.uint8, device="tpu") for _ in range(4)]
fail(b"{point}", -1)
for _ in range(2):
    with pytest.raises(torch.OutOfMemoryError) as caught:
        y.mul_(torch.tensor([2.0], device="tpu"))
text = str(caught.value)
assert "tpu:0 is out of memory" in text and "in use by" in text, text
assert "4 of 3.00 MiB" in text, text
assert torch.tpu.memory_stats()["num_ooms"] == 2
plugin.fault_clear()
# Nothing is lost, and the device works.
y.mul_(torch.tensor([2.0], device="tpu"))
torch.testing.assert_close(y.cpu(), want)
"""
    )


def test_compiling_without_room(run_faulty):
    run_faulty(
        """
fail(b"compile", -1)
with pytest.raises(torch.OutOfMemoryError):
    y.cos()
plugin.fault_clear()
torch.testing.assert_close(y.cos().cpu(), y.cpu().cos())
"""
    )
