"""Targets from a Transformers config: the model of its architecture, without weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

_LONGEST = 2048
_SIDE = 224  # of images, where the config does not tell
# Heads whose labels are one for each token, and one for each example.
_BY_TOKEN = ("LMHeadModel", "CausalLM", "MaskedLM", "ConditionalGeneration", "TokenClassification")
_BY_EXAMPLE = ("SequenceClassification", "ImageClassification")


class ConfigError(ValueError):
    """The config leads to no model, or to none that can be given examples."""


class _Called(torch.nn.Module):
    """A model that takes its inputs by position."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> Any:
        output = self.model(**dict(zip(self.names, inputs, strict=True)))
        return output if "labels" in self.names else output[0]


def target(
    path: str, *, train: bool = False, batch: int = 1, seq: int | None = None
) -> dict[str, Any]:
    """The model of a config and examples for it, as :func:`torch_tpu.aot.compile` takes them:
    "model" and "inputs". Nothing in it has memory.

    The model is that of the config's first architecture (without one: a causal language model, or
    else the bare model), in the config's dtype. Inputs are tokens, or images (of 224 pixels a side,
    unless the config says) where the model takes these. With `train` there are labels, and the
    output has a loss. Models that look at the values of a mask, such as BART, cannot be captured.

    Args:
        path: a config.json, or a folder that has one.
        batch: examples.
        seq: tokens of an example. The default is the model's longest, but at most 2048.

    Raises:
        ConfigError: there is no config, Transformers does not know the model or is not installed,
            or the model takes something else than tokens and images, or makes no loss of labels.
    """
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("a config as target needs: pip install transformers") from error
    config = _config(transformers, Path(path))
    # With a cache of keys, Transformers does not look into position_ids for packed sequences, which
    # a captured model has no values of.
    config.use_cache = True
    kind = _architecture(transformers, config)
    with torch.device("meta"):
        model = kind._from_config(config) if hasattr(kind, "_from_config") else kind(config)
    dtype = getattr(config, "dtype", None)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype)
    model = model.to(dtype) if dtype is not None else model
    inputs = _inputs(model, config, batch, seq)
    if train:
        inputs["labels"] = _labels(type(model).__name__, inputs, batch)
    return {
        "model": _Called(model, list(inputs)).train(train),
        "inputs": tuple(inputs.values()),
    }


def _config(transformers: Any, path: Path) -> Any:
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text())
        return transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise ConfigError(f"{file} has no 'model_type'") from error
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"{file} is no config that Transformers knows: {reason}") from error


def _architecture(transformers: Any, config: Any) -> Any:
    for name in config.architectures or ():
        found = getattr(transformers, name, None)
        if found is None:
            raise ConfigError(f"Transformers {transformers.__version__} has no {name}")
        return found
    mappings = transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.MODEL_MAPPING
    for mapping in mappings:
        if type(config) in mapping:
            return mapping[type(config)]
    raise ConfigError(f"the config of {config.model_type!r} names no architecture")


def _inputs(model: Any, config: Any, batch: int, seq: int | None) -> dict[str, torch.Tensor]:
    name = model.main_input_name
    if name == "pixel_values":
        side = getattr(config, "image_size", _SIDE)
        height, width = (side, side) if isinstance(side, int) else side
        shape = (batch, config.num_channels, height, width)
        return {name: torch.empty(shape, dtype=model.dtype, device="meta")}
    if name != "input_ids":
        raise ConfigError(
            f"{type(model).__name__} takes {name!r}, of which no example is made here; write a "
            "FILE.py with a function aot()"
        )
    if seq is None:
        seq = min(getattr(config, "max_position_embeddings", None) or _LONGEST, _LONGEST)
    tokens = torch.empty((batch, seq), dtype=torch.long, device="meta")
    return {name: tokens} | ({"decoder_input_ids": tokens} if config.is_encoder_decoder else {})


def _labels(kind: str, inputs: dict[str, torch.Tensor], batch: int) -> torch.Tensor:
    if kind.endswith(_BY_TOKEN) and "input_ids" in inputs:
        return torch.empty_like(inputs["input_ids"])
    if kind.endswith(_BY_EXAMPLE):
        return torch.empty((batch,), dtype=torch.long, device="meta")
    raise ConfigError(
        f"{kind} makes no loss that is known here; name an architecture with a head in the config, "
        "or write a FILE.py with a function aot()"
    )
