"""Runs a function when a module of torch is imported: `import torch` must not pay for Dynamo."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Function = Callable[[ModuleType], None]


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, function: Function) -> None:
        super().__init__(name, path)
        self._function = function

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self._function(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for its modules, and is gone when the last one has come."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        function = self.functions.pop(fullname, None)
        if function is None:
            return None
        if not self.functions:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path, function)
        return spec


_finder = _Finder()


def when_imported(name: str, function: Function) -> None:
    """Calls ``function(module)`` after the module ``name`` is imported, or now if it has been."""
    module = sys.modules.get(name)
    if module is not None:
        function(module)
        return
    if not _finder.functions:
        sys.meta_path.insert(0, _finder)
    _finder.functions[name] = function
