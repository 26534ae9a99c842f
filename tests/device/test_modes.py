"""The eager mode that the environment chooses."""

from concurrent.futures import ThreadPoolExecutor

import pytest

VARIABLES = {
    "DEFER_NEVER": {},
    "DEFER_AND_FUSE": {"TORCH_TPU_DEFER_AND_FUSE": "1"},
    "DEFER_NEVER_AND_LAUNCH_BLOCKING": {
        "TORCH_TPU_DEFER_AND_FUSE": "1",
        "TORCH_TPU_LAUNCH_BLOCKING": "1",
    },
}


@pytest.mark.parametrize("name", VARIABLES)
def test_environment(run_python, name):
    run_python(
        f"""
        import torch
        assert torch.tpu.get_eager_mode() is torch.tpu.EagerMode.{name}
        assert (torch.ones(3, device="tpu") + 1).tolist() == [2, 2, 2]
        """,
        **VARIABLES[name],
    )


def test_exit_with_recorded_work(run_python):
    run_python(
        """
        import torch
        x = torch.ones(3, device="tpu") + 1
        """,
        TORCH_TPU_DEFER_AND_FUSE="1",
    )


def test_exit_right_after_backward(run_python):
    """PyTorch's thread of backward() lets go of a Python object when backward() has returned."""
    code = """
    import torch
    x = torch.ones((3, 4), device="tpu", requires_grad=True)
    torch.nn.functional.gelu(x).sum().backward()
    """
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run_python(code), range(8)))
