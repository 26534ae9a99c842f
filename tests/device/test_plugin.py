"""Which plugin is used, and what is said when there is none or a bad one."""

import pytest
import torch

from torch_tpu import _plugin

NO_PLUGIN = """
    import importlib.util, sys
    real = importlib.util.find_spec
    hidden = ("fastatomstruct_xla_cpu", "xla_plugins", "libtpu")
    importlib.util.find_spec = lambda name, *a: None if name.startswith(hidden) else real(name, *a)
    import torch
"""


def message_of_first_use(run_python, before="import torch", **env):
    """Type and text of the error of the first use of the device, one a line."""
    code = f"""
{before}
assert torch.device("tpu")
try:
    torch.tpu.init()
except Exception as error:
    print(type(error).__name__, error)
"""
    result = run_python(code, **env)
    assert result.stderr == ""
    return result.stdout.strip()


def test_no_plugin(run_python):
    import textwrap

    before = textwrap.dedent(NO_PLUGIN)
    before += "assert not torch.tpu.is_available() and torch.tpu.device_count() == 0\n"
    message = message_of_first_use(run_python, before, TPU_LIBRARY_PATH=None)
    assert message.startswith("RuntimeError No PJRT plugin for the tpu device: this machine has no")
    assert "pip install fastatomstruct-xla-cpu" in message
    assert "TORCH_TPU_PJRT_PLUGIN" in message


def test_no_plugin_at_set_device(run_python):
    import textwrap

    run_python(
        textwrap.dedent(NO_PLUGIN)
        + textwrap.dedent("""
        try:
            torch.tpu.set_device(1)
        except RuntimeError as error:
            assert "No PJRT plugin" in str(error), error
        else:
            raise AssertionError("no error")
        """)
    )


def test_wrong_path(run_python):
    message = message_of_first_use(run_python, TORCH_TPU_PJRT_PLUGIN="/nowhere/plugin.so")
    assert message.startswith("RuntimeError")
    assert "/nowhere/plugin.so" in message


def test_wrong_path_is_not_available(run_python):
    run_python(
        "import torch; assert not torch.tpu.is_available(); assert torch.tpu.device_count() == 0",
        TORCH_TPU_PJRT_PLUGIN="/nowhere/plugin.so",
    )


@pytest.mark.parametrize("kind", ["text", "library"])
def test_a_file_that_is_no_plugin(run_python, tmp_path, kind):
    if kind == "text":
        path = tmp_path / "plugin.so"
        path.write_text("not a library")
    else:
        path = next(iter((_torch_folder() / "lib").glob("libc10.so")))
    message = message_of_first_use(run_python, TORCH_TPU_PJRT_PLUGIN=str(path))
    assert message.startswith("RuntimeError")
    assert str(path) in message
    if kind == "library":
        assert "GetPjrtApi" in message


def _torch_folder():
    from pathlib import Path

    return Path(torch.__file__).parent


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TORCH_TPU_CPU_DEVICES", "many", "expected an integer of at least 1"),
        ("TORCH_TPU_LAUNCH_BLOCKING", "maybe", "expected 0 or 1"),
        ("TORCH_TPU_CPU_FALLBACK", "never", "expected error, warn or silent"),
    ],
)
def test_a_setting_that_is_not_understood(run_python, name, value, expected):
    message = message_of_first_use(run_python, **{name: value})
    assert message == f"ValueError {name}={value}: {expected}"


@pytest.fixture
def machine(monkeypatch):
    """A machine with what the test says: ``machine(tpu=..., libtpu=..., cpu=...)``."""

    def make(tpu, libtpu, cpu):
        monkeypatch.setattr(_plugin, "has_tpu", lambda: tpu)
        monkeypatch.setattr(_plugin, "find_libtpu", lambda: "/libtpu.so" if libtpu else None)
        monkeypatch.setattr(_plugin, "find_cpu_plugin", lambda: "/cpu.so" if cpu else None)
        return _plugin.choose()

    return make


def test_libtpu_where_there_is_a_tpu(machine):
    assert machine(tpu=True, libtpu=True, cpu=True) == _plugin.Choice("/libtpu.so", "libtpu")


def test_cpu_plugin_where_there_is_no_tpu(machine):
    assert machine(tpu=False, libtpu=True, cpu=True) == _plugin.Choice("/cpu.so", "cpu")


def test_cpu_plugin_where_libtpu_is_missing(machine):
    assert machine(tpu=True, libtpu=False, cpu=True) == _plugin.Choice("/cpu.so", "cpu")


def test_a_tpu_without_libtpu_says_so(machine):
    choice = machine(tpu=True, libtpu=False, cpu=False)
    assert choice.path == "" and "libtpu is not installed" in choice.problem


def test_the_environment_comes_first(run_python):
    path = _plugin.find_cpu_plugin()
    run_python(
        f"""
        import torch_tpu._load as load
        assert load.C.plugin_choice()["path"] == {path!r}
        """,
        TORCH_TPU_PJRT_PLUGIN=path,
    )


def test_xla_is_quiet(run_python):
    result = run_python("import torch; torch.tpu.init(); print(torch.tpu.is_initialized())")
    assert result.stdout == "True\n"
    assert result.stderr == ""


def test_several_cpu_devices(run_python):
    run_python(
        """
        import torch
        assert torch.tpu.device_count() == 3
        torch.tpu.init()
        assert torch.tpu.device_count() == 3
        torch.tpu.set_device(2)
        assert torch.tpu.current_device() == 2
        assert torch.tpu.get_device_properties().local_hardware_id >= 0
        """,
        TORCH_TPU_CPU_DEVICES="3",
    )
