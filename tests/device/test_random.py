"""Generators: seeding, states, forks."""

import pytest
import torch


def draw(n=5, **kwargs):
    return torch.rand(n, device="tpu", **kwargs).tolist()


def test_manual_seed():
    torch.manual_seed(7)
    first = draw()
    assert draw() != first
    torch.manual_seed(7)
    assert draw() == first
    torch.tpu.manual_seed(7)
    assert draw() == first
    torch.tpu.manual_seed_all(7)
    assert draw() == first
    assert torch.tpu.initial_seed() == 7
    torch.manual_seed(8)
    assert draw() != first


def test_seed_before_the_runtime_starts(run_python):
    code = """
        import torch
        torch.manual_seed(5)
        print(torch.rand(3, device="tpu").tolist(), torch.rand(3, device="tpu:1").tolist())
    """
    first = run_python(code, TORCH_TPU_CPU_DEVICES="2").stdout
    assert first == run_python(code, TORCH_TPU_CPU_DEVICES="2").stdout
    a, b = first.strip().split("] [")
    assert a.strip("[]") == b.strip("[]")


def test_negative_seeds():
    torch.manual_seed(-1)
    assert torch.tpu.initial_seed() == 2**64 - 1


def test_seed_is_random():
    seeds = {torch.tpu.seed(), torch.tpu.seed(), torch.tpu.seed_all()}
    assert len(seeds) == 3


def test_state():
    state = torch.tpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.shape == (16,) and state.device.type == "cpu"
    first = draw()
    assert not torch.equal(torch.tpu.get_rng_state(), state)
    torch.tpu.set_rng_state(state)
    assert draw() == first
    torch.tpu.set_rng_state_all([state])
    assert draw() == first
    assert len(torch.tpu.get_rng_state_all()) == torch.tpu.device_count()


def test_state_is_seed_and_offset():
    torch.tpu.manual_seed(0x0123456789ABCDEF)
    assert torch.tpu.get_rng_state().view(torch.int64).tolist() == [0x0123456789ABCDEF, 0]
    torch.tpu._set_rng_state_offset(12)
    assert torch.tpu._get_rng_state_offset() == 12
    assert torch.tpu.get_rng_state().view(torch.int64).tolist() == [0x0123456789ABCDEF, 12]


def test_wrong_states():
    with pytest.raises(RuntimeError, match="16 bytes, but this one has 3"):
        torch.tpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError, match=r"torch\.ByteTensor"):
        torch.tpu.set_rng_state(torch.zeros(16))


def test_fork_rng():
    torch.manual_seed(1)
    first = draw()
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="tpu"):
        draw()
        torch.manual_seed(99)
    assert draw() == first


def test_generators():
    one = torch.Generator("tpu").manual_seed(4)
    two = torch.Generator(device="tpu:0").manual_seed(4)
    assert one.device == torch.device("tpu:0")
    before = torch.tpu.get_rng_state()
    a = draw(generator=one)
    assert torch.equal(before, torch.tpu.get_rng_state())
    assert draw(generator=two) == a
    assert draw(generator=two) == draw(generator=one)
    assert one.initial_seed() == 4
    two.set_state(one.get_state())
    assert draw(generator=two) == draw(generator=one)
    clone = one.clone_state()
    assert draw(generator=clone) == draw(generator=one)


def test_graphsafe_states_are_shared():
    generator = torch.Generator("tpu").manual_seed(4)
    shared = generator.graphsafe_get_state()
    first = draw(generator=generator)
    assert draw(generator=shared) != first
    assert shared.get_state().tolist() == generator.get_state().tolist()
    other = torch.Generator("tpu").manual_seed(4)
    generator.graphsafe_set_state(other)
    assert draw(generator=generator) == first
    assert other.get_offset() == generator.get_offset() > 0


def test_wrong_generator():
    with pytest.raises(RuntimeError, match="Expected a 'tpu' device type for generator"):
        torch.rand(3, device="tpu", generator=torch.Generator())


def test_default_generators():
    assert len(torch.tpu.default_generators) == torch.tpu.device_count()
    generator = torch.tpu.default_generators[0]
    assert generator is torch.tpu._get_generator("tpu") or generator.device.type == "tpu"
    torch.tpu.manual_seed(3)
    assert generator.initial_seed() == 3
    with pytest.raises(IndexError):
        torch.tpu.default_generators[99]


def test_dropout_draws_from_the_default_generator():
    x = torch.ones(100, device="tpu")
    torch.manual_seed(2)
    first = torch.nn.functional.dropout(x)
    torch.manual_seed(2)
    assert torch.equal(torch.nn.functional.dropout(x), first)
