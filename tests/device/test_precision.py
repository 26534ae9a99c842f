"""The precision of float32 products: who decides it, what it compiles, and the program's text."""

import re
import threading

import pytest
import torch
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def nothing_set():
    # PyTorch's own test code, which other tests import, freezes these settings.
    with torch.backends.__allow_nonbracketed_mutation():
        yield
        torch.tpu.precision = None
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"
        torch.backends.fp32_precision = "none"


def programs(call):
    """Programs that the call took: compiled, or loaded from the disk cache."""
    before = torch.tpu.counters()
    call()
    torch.tpu.synchronize()
    after = torch.tpu.counters()
    return sum(after[k] - before[k] for k in ("compiles", "disk_cache_hits"))


def rand(*shape, dtype=torch.float32):
    return torch.rand(shape, device="tpu").to(dtype)


PRODUCTS = {
    "mm": lambda: rand(3, 14) @ rand(14, 5),
    "linear": lambda: F.linear(rand(3, 14), rand(5, 14), rand(5)),
    "baddbmm": lambda: torch.baddbmm(rand(2, 3, 5), rand(2, 3, 14), rand(2, 14, 5)),
    "dot": lambda: torch.dot(rand(14), rand(14)),
    "conv2d": lambda: F.conv2d(rand(1, 2, 14, 14), rand(3, 2, 3, 3)),
    "attention": lambda: F.scaled_dot_product_attention(*[rand(1, 2, 14, 4)] * 3),
    "complex": lambda: rand(3, 14, dtype=torch.complex64) @ rand(14, 5, dtype=torch.complex64),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_each_value_compiles_once(name):
    call = PRODUCTS[name]
    programs(call)
    for value in ("high", "default"):
        with torch.tpu.precision(value):
            assert programs(call) == 1
            assert programs(call) == 0
        assert programs(call) == 0


OTHERS = {
    "add": lambda: rand(3, 15) + rand(3, 15),
    "sum": lambda: rand(3, 15).sum(1),
    "double": lambda: rand(3, 15, dtype=torch.float64) @ rand(15, 5, dtype=torch.float64),
    "bfloat16": lambda: rand(3, 15, dtype=torch.bfloat16) @ rand(15, 5, dtype=torch.bfloat16),
    "solve": lambda: torch.linalg.solve(rand(15, 15) + torch.eye(15, device="tpu"), rand(15)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_programs_stay(name):
    call = OTHERS[name]
    call()
    with torch.tpu.precision("default"):
        assert programs(call) == 0


def test_fused_programs_have_their_own():
    def call():
        with torch.tpu.eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE):
            (rand(3, 16) @ rand(16, 5) + 1).cpu()

    call()
    with torch.tpu.precision("high"):
        assert programs(call) > 0
        assert programs(call) == 0
    assert programs(call) == 0


@pytest.mark.parametrize("value", ["default", "high", "highest"])
def test_the_program_says_it(value, run_python):
    result = run_python(
        f"""
        import torch
        from torch.nn import functional as F
        a = torch.ones(3, 3, device="tpu")
        with torch.tpu.precision("{value}"):
            a @ a
            F.conv2d(torch.ones(1, 2, 5, 5, device="tpu"), torch.ones(3, 2, 3, 3, device="tpu"))
        """,
        TORCH_TPU_LOG="programs",
        TORCH_TPU_CACHE="0",
    )
    for operation in ("dot_general", "convolution"):
        lines = [line for line in result.stderr.splitlines() if f"stablehlo.{operation}" in line]
        assert lines
        for line in lines:
            assert set(re.findall(r"precision (\w+)>", line)) == {value.upper()}, line


def test_values_read_and_set():
    assert torch.tpu.precision == "highest"
    torch.tpu.precision = "high"
    assert torch.tpu.precision == "high"
    with torch.tpu.precision("default"):
        assert torch.tpu.precision == "default"
        with torch.tpu.precision(None):
            assert torch.tpu.precision == "highest"
        assert torch.tpu.precision == "default"
    assert torch.tpu.precision == "high"
    torch.tpu.precision = None
    assert torch.tpu.precision == "highest"


def test_it_is_restored_after_an_error():
    with pytest.raises(KeyError), torch.tpu.precision("default"):
        raise KeyError
    assert torch.tpu.precision == "highest"


def test_it_decorates():
    @torch.tpu.precision("high")
    def call():
        return torch.tpu.precision

    assert (call(), call(), torch.tpu.precision) == ("high", "high", "highest")


@pytest.mark.parametrize("value", ["medium", "", 2])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError, match="default.*high.*highest"):
        torch.tpu.precision = value
    with pytest.raises(ValueError, match="default.*high.*highest"):
        torch.tpu.precision(value)
    assert torch.tpu.precision == "highest"


def test_it_is_the_process_s():
    seen = []
    with torch.tpu.precision("high"):
        thread = threading.Thread(target=lambda: seen.append(str(torch.tpu.precision)))
        thread.start()
        thread.join()
    assert seen == ["high"]


@pytest.mark.parametrize(
    ("value", "expected"), [("highest", "highest"), ("high", "high"), ("medium", "default")]
)
def test_matmul_precision_of_torch(value, expected):
    torch.set_float32_matmul_precision(value)
    assert torch.tpu.precision == expected
    with torch.tpu.precision("highest"):  # our own goes first
        assert torch.tpu.precision == "highest"
    assert torch.tpu.precision == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("ieee", "highest"), ("tf32", "high"), ("bf16", "default"), ("none", "highest")],
)
def test_precision_of_all_backends(value, expected):
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    torch.backends.fp32_precision = value
    assert torch.tpu.precision == expected


def test_the_special_setting_beats_the_general_one():
    torch.backends.fp32_precision = "tf32"
    torch.set_float32_matmul_precision("highest")
    assert torch.tpu.precision == "highest"


def test_settings_of_one_library_do_not_count():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    assert torch.tpu.precision == "highest"
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert torch.tpu.precision == "highest"
