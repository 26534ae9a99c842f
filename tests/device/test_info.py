"""python -m torch_tpu.info"""

CODE = "import runpy; runpy.run_module('torch_tpu.info', run_name='__main__')"


def test_report(run_python):
    out = run_python(CODE).stdout
    for word in (
        "torch_tpu",
        "torch  ",
        "plugin",
        "PJRT C API",
        "StableHLO",
        "cache",
        "tpu:0",
        "GiB",
    ):
        assert word in out
    assert out.endswith("ok\n") and "PROBLEM" not in out


def test_report_of_a_bad_plugin(run_python):
    out = run_python(CODE, status=1, TORCH_TPU_PJRT_PLUGIN="/nowhere/plugin.so").stdout
    assert "PROBLEM" in out and "/nowhere/plugin.so" in out
    assert "TORCH_TPU_PJRT_PLUGIN" in out


def test_report_of_a_bad_setting(run_python):
    out = run_python(CODE, status=1, TORCH_TPU_CPU_DEVICES="x").stdout
    assert "PROBLEM" in out and "TORCH_TPU_CPU_DEVICES=x" in out


def test_cache_off(run_python):
    assert "cache         off" in run_python(CODE, TORCH_TPU_CACHE="0").stdout
