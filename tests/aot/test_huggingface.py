"""Targets from configs of Transformers."""

import json
import subprocess
import sys

import pytest

from torch_tpu import aot
from torch_tpu.aot import huggingface, program_text

pytest.importorskip("transformers")

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 16,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
#: Attention with grouped keys, three products of the MLP, two norms; embedding, norm, head.
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64
PARAMETERS = LAYER + 2 * 128 * 64 + 64
BERT = {
    "architectures": ["BertForSequenceClassification"],
    "model_type": "bert",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 64,
}
VIT = {
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 16,
}
RESNET = {
    "architectures": ["ResNetForImageClassification"],
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 16],
    "depths": [1, 1],
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 32,
    "d_ff": 64,
    "d_kv": 16,
    "num_layers": 1,
    "num_heads": 2,
    "vocab_size": 64,
    "decoder_start_token_id": 0,
}


def written(folder, config):
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def sgd(parameters):
    import torch

    return torch.optim.SGD(parameters, lr=0.1)


def test_forward_of_a_llama_has_its_parameters_and_flops(tmp_path):
    written(tmp_path, LLAMA)
    target = huggingface.target(str(tmp_path), batch=3)
    assert all(p.is_meta for p in target["model"].parameters())
    program = aot.capture(target["model"], target["inputs"])
    assert program.held["parameters"] == 2 * PARAMETERS
    assert program.held["inputs"] == 3 * 16 * 8  # the model's longest
    products = LAYER - 2 * 64 + 128 * 64
    attention = 2 * 16 * 64  # products of 16 keys, for each token
    assert program_text.model_flops(program.text) == 2 * 3 * 16 * (products + attention)


@pytest.mark.parametrize("config", [LLAMA, BERT, VIT, RESNET, T5], ids=lambda c: c["model_type"])
def test_steps_have_a_loss(tmp_path, config):
    target = huggingface.target(written(tmp_path, config), train=True, batch=2, seq=8)
    program = aot.capture(target["model"], target["inputs"], optimizer=sgd)
    forward = huggingface.target(written(tmp_path, config), batch=2, seq=8)
    flops = program_text.model_flops(aot.capture(forward["model"], forward["inputs"]).text)
    # Of the first layer there may be no gradient of the input.
    assert 2 * flops < program_text.model_flops(program.text) < 4 * flops


def test_a_llama_of_eight_billion_parameters_takes_no_memory(tmp_path):
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32}
    sizes |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
    target = huggingface.target(written(tmp_path, LLAMA | sizes), seq=1024)
    program = aot.capture(target["model"], target["inputs"])
    assert program.held["parameters"] == 2 * 8_030_261_248


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "nothing of the kind"}, "no config that Transformers knows"),
        ({"hidden_size": 3}, "no 'model_type'"),
        (LLAMA | {"architectures": ["LlamaForEverything"]}, "has no LlamaForEverything"),
        (LLAMA | {"architectures": ["LlamaModel"]}, "no loss"),
        (
            {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "num_hidden_layers": 1},
            "'input_values'",
        ),
    ],
)
def test_what_cannot_be_a_target_says_why(tmp_path, config, words):
    with pytest.raises(huggingface.ConfigError, match=words):
        huggingface.target(written(tmp_path, config), train=True)
    with pytest.raises(huggingface.ConfigError, match="cannot be read"):
        huggingface.target(str(tmp_path / "none.json"))


def test_the_command_takes_a_config(tmp_path, libtpu):
    report, picture = tmp_path / "report.json", tmp_path / "memory.svg"
    command = [sys.executable, "-m", "torch_tpu.aot", f"hf:{written(tmp_path, LLAMA)}"]
    command += ["--topology", "v5e:1x1", "--batch", "2", "--seq", "8"]
    run = subprocess.run(
        [*command, "--json", str(report), "--plot", str(picture)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("v5e:1x1: FITS.")
    values = json.loads(report.read_text())
    assert values["held"]["parameters"] == 2 * PARAMETERS
    assert values["held"]["inputs"] == 2 * 8 * 8
    assert values["costs"]["operators"][0]["cycles"] > 0
    assert picture.read_text().startswith("<svg")
    wrong = subprocess.run([*command[:3], "hf:/nowhere"], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "cannot be read" in wrong.stderr and "Traceback" not in wrong.stderr
