"""Runs PyTorch's own operator descriptions (OpInfo) on the CPU and on the device and compares all
that can be observed: value, dtype, shape, strides, in-place and out= forms, gradients, fallbacks.

Here are the forms of the fast tier; opinfo_forms.py has the others, and sweep.py runs them all. As
a script it prints the failures of the operators whose names match a pattern, in the form of
expected_failures.txt:

    python tests/ops/opinfo_runner.py [--full] [--dtype float32] [PATTERN]
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

DEVICE = "tpu"
FORMS = ("forward", "inplace", "out", "grad")
#: What opinfo_forms.py adds to them.
MORE_FORMS = (
    "out_size",
    "out_dtype",
    "out_strided",
    "out_overlap",
    "noncontiguous",
    "channels_last",
    "zero_size",
)
EXPECTED_FILE = Path(__file__).with_name("expected_failures.txt")

#: Samples of an operator and dtype in the fast tier; those are spread over the first WINDOW.
SAMPLES = {torch.float32: 3, torch.int64: 2}
WINDOW = 24

#: Not about dense tensors of one device.
LEFT_OUT = re.compile(r"^(sparse\.|to_sparse|_refs|jiterator|torch\.ops\.)|^(masked_sparse)")

#: Results that PyTorch leaves undefined: only their metadata is compared.
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}

#: Which of several equal elements an index names is left open; by a sort that is not stable too.
TIES = {"topk", "kthvalue", "mode"}
SORTS = {"sort", "argsort"}


def _of_eigh(_: Any, result: Any) -> Any:
    """Eigenvectors are free in sign (phase), and in any rotation where eigenvalues are equal."""
    values, vectors = result
    restored = (vectors * values.unsqueeze(-2)) @ vectors.mH
    return values, restored, vectors.mH @ vectors


def _of_eigvals(_: Any, values: Any) -> Any:
    """The order of eigenvalues is free: sums of their powers are not."""
    powers = torch.arange(1, values.shape[-1] + 1)
    largest = values.abs().amax(-1, keepdim=True) if values.numel() else torch.ones(())
    return largest, (values / largest).unsqueeze(-1).pow(powers).sum(-2)


def _of_eig(tree: Any, result: Any) -> Any:
    """As eigenvectors of eigh, in no order; each is of length 1 and solves A v = w v."""
    values, vectors = result
    a = tree[0].detach().cpu().to(vectors.dtype)
    rest = a @ vectors - vectors * values.unsqueeze(-2)
    return _of_eigvals(tree, values), rest, vectors.norm(dim=-2)


def _of_svd(_: Any, result: Any) -> Any:
    """As eigenvectors; U and V go together, and what completes them is any basis."""
    u, s, vh = result
    k = s.shape[-1]
    restored = (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]
    return s, restored, u.mH @ u, vh @ vh.mH


def _of_torch_svd(tree: Any, result: Any) -> Any:
    if result.U.count_nonzero() == 0:  # compute_uv=False
        return tuple(result)
    return _of_svd(tree, (result.U, result.S, result.V.mH))


#: What is unique in the results of operators that LAPACK leaves a choice.
INVARIANTS = {
    "linalg.eig": _of_eig,
    "linalg.eigvals": _of_eigvals,
    "linalg.eigh": _of_eigh,
    "linalg.svd": _of_svd,
    "svd": _of_torch_svd,
}

#: Gradients that are solutions of ill-conditioned systems: the error of an element goes with the
#: largest of all, in every implementation, and LAPACK's own differs between CPUs. They are compared
#: at the same tolerances, as shares of the largest.
BY_LARGEST = {"linalg.lstsq [float32]", "linalg.lstsq.grad_oriented [float32]"}

#: Strides that depend on the device in PyTorch too.
FREE_STRIDES = {"nonzero", "nonzero_static", "argwhere"}

#: The least (rtol, atol) of results of a dtype; an operator's own may be wider.
TOLERANCE = {
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (1e-5, 1e-5),
    torch.complex64: (1e-5, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}


def _without_seed(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


# OpInfo gives random operators a seed of their own; here the seed is the runner's, so that it can
# see which operators are random.
common_methods_invocations.wrapper_set_seed = _without_seed


def cases(full: bool = False) -> Iterator[tuple[OpInfo, torch.dtype]]:
    """The operators and dtypes to run."""
    for op in op_db:
        if LEFT_OUT.search(op.name):
            continue
        supported = op.supported_dtypes("cpu")
        wanted = sorted(supported, key=str) if full else [d for d in SAMPLES if d in supported]
        for dtype in wanted:
            yield op, dtype


def name_of(op: OpInfo, dtype: torch.dtype) -> str:
    return f"{full_name(op)} [{str(dtype).removeprefix('torch.')}]"


def full_name(op: OpInfo) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def read_expected(sweep: bool = False, path: Path = EXPECTED_FILE) -> dict[str, dict[str, str]]:
    """``{"name [dtype]": {form: reason}}`` of the expected failures; with those that only the full
    sweep sees."""
    forms = (*FORMS, *MORE_FORMS, "fallback", "*")
    expected: dict[str, dict[str, str]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        match = re.fullmatch(r"(~?)(\S+) \[([\w, *]+)\] ([\w, *]+): (.+)", line)
        if match is None:
            raise ValueError(f"{path.name}:{number}: expected 'name [dtype] form: reason'")
        wrong = set(listed(match[4])) - set(forms)
        if wrong:
            raise ValueError(f"{path.name}:{number}: {wrong} is none of {forms}")
        if match[1] and not sweep:
            continue
        for dtype in listed(match[3]):
            of_case = expected.setdefault(f"{match[2]} [{dtype}]", {})
            of_case.update(dict.fromkeys(listed(match[4]), match[5]))
    return expected


def reasons_of(expected: dict[str, dict[str, str]], name: str, dtype: str) -> dict[str, str]:
    """``{form: reason}`` of an operator and dtype; each of the three may be "*" in the list."""
    found: dict[str, str] = {}
    for key in (f"* [{dtype}]", f"{name} [*]", f"{name} [{dtype}]"):
        for form, reason in expected.get(key, {}).items():
            forms = (*FORMS, *MORE_FORMS) if form == "*" else (form,)
            found.update(dict.fromkeys(forms, reason))
    return found


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


# ---------------------------------------------------------------------------------------- samples


def samples_of(
    op: OpInfo, dtype: torch.dtype, grad: bool, count: int | None = None
) -> list[SampleInput]:
    """All samples, or as many, spread over the first of them."""
    torch.manual_seed(0)
    drawn = op.sample_inputs("cpu", dtype, requires_grad=grad)
    if count is None:
        return [s for s in drawn if _is_strided(s)]
    window = [s for s in itertools.islice(drawn, WINDOW) if _is_strided(s)]
    count = min(count, len(window))
    if count <= 1:
        return window[:count]
    return [window[i * (len(window) - 1) // (count - 1)] for i in range(count)]


def _is_strided(sample: SampleInput) -> bool:
    tensors = [x for x in tree_leaves(arguments_of(sample)) if isinstance(x, torch.Tensor)]
    return all(x.layout == torch.strided and type(x) is not torch.nested for x in tensors)


def arguments_of(sample: SampleInput) -> tuple[Any, tuple, dict]:
    return sample.input, sample.args, sample.kwargs


def copy_to(tree: Any, device: str) -> Any:
    """A copy with the very same strides and offsets; a leaf that requires grad is one again."""

    def copy(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return copy_tensor(x, device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device(device)
        return x

    def leaf(x: Any) -> Any:
        return isinstance(x, (torch.Tensor, torch.device, str))

    return tree_map(copy, tree, is_leaf=leaf)


def copy_tensor(x: torch.Tensor, device: str) -> torch.Tensor:
    x = x.detach()
    if x.is_conj():
        return copy_tensor(x.conj(), device).conj()
    if x.is_neg():
        return copy_tensor(torch._neg_view(x), device)._neg_view()
    if x.is_contiguous() and x.storage_offset() == 0:
        return x.to(device, copy=True)
    needed = x.storage_offset() + 1
    needed += sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    flat = x.as_strided((needed if x.numel() else 0,), (1,), 0)
    return flat.to(device, copy=True).as_strided(x.shape, x.stride(), x.storage_offset())


# -------------------------------------------------------------------------------------- comparing


class DifferenceError(Exception):
    """The device did something else than the CPU."""


def tolerance(op: OpInfo, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol): the widest of the operator's own for the dtype."""
    rtol = atol = 0.0
    for entry in op.decorators:
        parts = entry.decorators if isinstance(entry, DecorateInfo) else [entry]
        for part in parts:
            own = getattr(part, "d", {})
            if isinstance(own, dict) and dtype in own and hasattr(own[dtype], "rtol"):
                rtol, atol = max(rtol, own[dtype].rtol), max(atol, own[dtype].atol)
            elif isinstance(own, dict) and isinstance(own.get(dtype), float):
                atol = max(atol, own[dtype])
    return rtol, atol


def same(
    got: Any,
    want: Any,
    limits: tuple[float, float],
    values: bool = True,
    by_largest: bool = False,
) -> None:
    """Raise DifferenceError unless the two trees agree in structure, dtypes, shapes and values.

    With ``by_largest``, a tensor's values are compared as shares of its largest.
    """
    got_leaves, got_spec = tree_flatten(got)
    want_leaves, want_spec = tree_flatten(want)
    if got_spec != want_spec:
        raise DifferenceError(f"structure {got_spec}, expected {want_spec}")
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            if isinstance(w, (bool, int, float, complex)) and values:
                _close(torch.tensor(g), torch.tensor(w), limits)
            continue
        if g.dtype != w.dtype or g.shape != w.shape:
            raise DifferenceError(
                f"{g.dtype} {tuple(g.shape)}, expected {w.dtype} {tuple(w.shape)}"
            )
        if w.layout != g.layout:
            raise DifferenceError(f"{g.layout}, expected {w.layout}")
        if w.layout != torch.strided:
            continue
        if g.device.type != DEVICE and w.device.type != g.device.type:
            raise DifferenceError(f"result on {g.device}")
        if values:
            g, w = g.detach().cpu(), w.detach()
            _close(*(_as_shares(g, w) if by_largest else (g, w)), limits)


def _close(got: torch.Tensor, want: torch.Tensor, limits: tuple[float, float]) -> None:
    rtol = atol = 0.0
    if want.dtype in TOLERANCE:
        rtol, atol = (max(a, b) for a, b in zip(limits, TOLERANCE[want.dtype], strict=True))
    try:
        torch.testing.assert_close(
            got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        raise DifferenceError(" ".join(str(error).split())[:300]) from None


def _as_shares(got: torch.Tensor, want: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as shares of the largest expected element; as they are if there is no finite one."""
    largest = float(want.abs().max()) if want.numel() else 0.0
    return (got / largest, want / largest) if 0.0 < largest < math.inf else (got, want)


def same_strides(got: Any, want: Any) -> None:
    """Raise DifferenceError where strides differ that can be told apart by an element's place."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        if not isinstance(w, torch.Tensor) or w.numel() == 0 or w.layout != torch.strided:
            continue
        for size, a, b in zip(w.shape, g.stride(), w.stride(), strict=True):
            if size > 1 and a != b:
                raise DifferenceError(
                    f"strides {g.stride()}, expected {w.stride()} {tuple(w.shape)}"
                )


# ------------------------------------------------------------------------------------------ forms


@dataclass(frozen=True)
class Choice:
    """What is run of an operator and dtype: the samples (None: all), and of those for which a form
    other than forward has a meaning, how many."""

    samples: int | None = None
    each: int | None = None
    forms: tuple[str, ...] = FORMS
    #: Further forms: name -> check of (case, sample, the CPU's result).
    more: tuple[tuple[str, Callable], ...] = ()


def fast(dtype: torch.dtype) -> Choice:
    return Choice(samples=SAMPLES.get(dtype, 2), each=1)


class Case:
    """One operator and dtype; ``run`` gives the failures by form."""

    def __init__(self, op: OpInfo, dtype: torch.dtype, choice: Choice):
        self.op, self.dtype, self.choice = op, dtype, choice
        self.limits = tolerance(op, dtype)
        self.values = full_name(op) not in UNDEFINED and op.name not in UNDEFINED
        self.failures: dict[str, str] = {}
        self.ran: set[str] = set()

    def run(self) -> dict[str, str]:
        torch.tpu.reset_counters()
        own = {"forward": Case._forward, "inplace": Case._inplace, "out": Case._out}
        checks = {form: own[form] for form in self.choice.forms if form in own}
        checks |= dict(self.choice.more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = dict.fromkeys(checks, 0)
            for sample in samples_of(self.op, self.dtype, False, self.choice.samples):
                want = self._reference(sample)  # also tells whether the operator is random
                if want is None:
                    continue
                for form, check in checks.items():
                    enough = form != "forward" and done[form] == self.choice.each
                    if not enough:
                        done[form] += self._try(form, check, self, sample, want)
            if "grad" in self.choice.forms:
                self._gradients()
        fallbacks = torch.tpu.fallback_ops()
        if fallbacks:
            self.failures["fallback"] = ", ".join(sorted(fallbacks))
        return self.failures

    def _try(self, form: str, check: Callable, *args: Any) -> bool:
        """Run one check; False if the form has no meaning for the sample."""
        try:
            ran = check(*args)
        except DifferenceError as error:
            self._fail(form, str(error))
            return True
        except Exception as error:
            self._fail(form, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return True
        if ran:
            self.ran.add(form)
        return bool(ran)

    def _fail(self, form: str, text: str) -> None:
        self.ran.add(form)
        self.failures.setdefault(form, text)

    def call(self, tree: Any, function: Any = None, seed: int = 1, **more: Any) -> Any:
        torch.manual_seed(seed)
        inputs, args, kwargs = tree
        return (function or self.op.op)(inputs, *args, **kwargs, **more)

    def _reference(self, sample: SampleInput) -> Any:
        """The CPU's result; None if the CPU has none."""
        try:
            want = self.call(copy_to_cpu(sample))
            others = [self.call(copy_to_cpu(sample), seed=s) for s in range(2, 6)]
        except Exception:
            return None
        if self.values:
            try:
                for other in others:
                    same(other, want, self.limits)
            except DifferenceError:
                self.values = False  # a random operator
        return want

    def _forward(self, sample: SampleInput, _: Any) -> bool:
        self.compare(arguments_of(sample))
        return True

    def compare(self, tree: Any) -> None:
        """Raise DifferenceError unless a call does the same on both."""
        host, there = copy_to(tree, "cpu"), copy_to(tree, DEVICE)
        want, got = self.call(host), self.call(there)
        self.same_results(got, want, there, host)
        if self.values:
            same(there, host, self.limits)

    def same_results(self, got: Any, want: Any, there: Any, host: Any) -> None:
        if self.op.name in TIES or (self.op.name in SORTS and not is_stable(host)):
            resolved = self._without_ties(there, got)
            same(resolved, self._without_ties(host, want), self.limits)
        elif self.op.name in INVARIANTS:
            same(got, want, self.limits, values=False)
            same(self._invariants(there, got), self._invariants(host, want), self.limits)
        else:
            same(got, want, self.limits, self.values)
        if self.op.name not in FREE_STRIDES:
            same_strides(got, want)

    def _without_ties(self, tree: Any, result: Any) -> Any:
        """The values, and those at the indices in place of the indices."""
        values, indices = result if isinstance(result, tuple) else (None, result)
        x = tree[0]
        if x.dim() == 0 or not isinstance(indices, torch.Tensor) or x.numel() == 0:
            return values
        if indices.dim() != x.dim():
            return values
        numbers = [a for a in tree[1] if type(a) is int]  # (k, dim) or (k,); of sorts (dim,)
        numbers = numbers if self.op.name in SORTS else numbers[1:]
        dim = tree[2].get("dim", numbers[0] if numbers else -1)
        return values, torch.gather(x, dim, indices)

    def _invariants(self, tree: Any, result: Any) -> Any:
        """Computed on the CPU for both, so that only the results themselves are compared."""
        return INVARIANTS[self.op.name](tree, tree_map(lambda x: x.cpu(), result))

    def _inplace(self, sample: SampleInput, _: Any) -> bool:
        variant = self.op.get_inplace()
        if variant is None or sample.broadcasts_input:
            return False
        host = copy_to_cpu(sample)
        try:
            want = self.call(host, variant)
        except Exception:
            return False
        arguments = copy_to(arguments_of(sample), DEVICE)
        pointer = arguments[0].data_ptr()
        got = self.call(arguments, variant)
        moves = "as_strided" in self.op.name
        if got is not arguments[0] or (got.data_ptr() != pointer and not moves):
            raise DifferenceError("the result is not the input")
        same(got, want, self.limits, self.values)
        same_strides(got, want)
        return True

    def _out(self, sample: SampleInput, want: Any) -> bool:
        tensors = self.out_tensors(want)
        if not tensors:
            return False
        outs = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in tensors]
        try:
            self.call(copy_to_cpu(sample), out=as_out(outs, want))
        except Exception:
            return False
        outs = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=DEVICE) for t in tensors
        ]
        pointers = [t.data_ptr() for t in outs]
        arguments = copy_to(arguments_of(sample), DEVICE)
        self.call(arguments, out=as_out(outs, want))
        if [t.data_ptr() for t in outs] != pointers:
            raise DifferenceError("out= has another data_ptr")
        got = outs[0] if isinstance(want, torch.Tensor) else rebuilt(want, outs)
        self.same_results(got, want, arguments, copy_to_cpu(sample))
        return True

    def out_tensors(self, want: Any) -> list[torch.Tensor]:
        """The results for which out= stands; none if the operator has no such form."""
        tensors = tree_leaves(want)
        if not self.op.supports_out or not all(isinstance(t, torch.Tensor) for t in tensors):
            return []
        return tensors

    def _gradients(self) -> None:
        op, dtype, choice = self.op, self.dtype, self.choice
        wanted = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
        if not wanted or not self.values:
            return
        try:
            samples = samples_of(op, dtype, True, choice.samples)
        except Exception:
            return
        done = 0
        for sample in samples:
            try:
                want = self._gradient(sample, "cpu")
            except Exception:
                continue
            if want is None:
                continue

            def check(sample: SampleInput = sample, want: Any = want) -> bool:
                by_largest = name_of(self.op, self.dtype) in BY_LARGEST
                same(self._gradient(sample, DEVICE), want, self.limits, by_largest=by_largest)
                return True

            done += self._try("grad", check)
            if done == choice.each:
                return

    def _gradient(self, sample: SampleInput, device: str) -> list[torch.Tensor] | None:
        """Gradients of a fixed combination of the results."""
        tree = copy_to(arguments_of(sample), device)
        leaves = [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor) and x.requires_grad]
        torch.manual_seed(1)
        result = self.op.gradcheck_wrapper(self.op.op, tree[0], *tree[1], **tree[2])
        result = sample.output_process_fn_grad(result)
        outs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
        if not outs or not leaves or any(x.numel() == 0 for x in outs):
            return None
        generator = torch.Generator().manual_seed(7)
        weights = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in outs]
        grads = torch.autograd.grad(
            outs, leaves, [w.to(device) for w in weights], allow_unused=True
        )
        return [g for g in grads if g is not None]


def is_stable(tree: Any) -> bool:
    return bool(tree[2].get("stable"))


def as_out(outs: list[torch.Tensor], want: Any) -> Any:
    """The argument out= for tensors that stand for the results."""
    return outs[0] if isinstance(want, torch.Tensor) else tuple(outs)


def rebuilt(want: Any, tensors: list[torch.Tensor]) -> Any:
    return tree_unflatten(tensors, tree_flatten(want)[1])


def copy_to_cpu(sample: SampleInput) -> Any:
    return copy_to(arguments_of(sample), "cpu")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--dtype")
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("TORCH_TPU_CPU_FALLBACK", "silent")
    for op, dtype in cases(options.full):
        if not re.search(options.pattern, full_name(op)):
            continue
        if options.dtype and str(dtype) != f"torch.{options.dtype}":
            continue
        start = time.process_time()
        choice = Choice() if options.full else fast(dtype)
        for form, text in Case(op, dtype, choice).run().items():
            print(f"{name_of(op, dtype)} {form}: {text}", flush=True)
        took, compiles = time.process_time() - start, torch.tpu.counters()["compiles"]
        if options.times:
            print(f"# {name_of(op, dtype)} {took:.2f} s, {compiles} compiles", flush=True)


if __name__ == "__main__":
    main()
