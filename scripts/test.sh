#!/usr/bin/env bash
# Sets everything up and runs the tests: C++ (ctest), then Python (pytest).
#   scripts/test.sh            the fast tier, as in CI
#   scripts/test.sh --full     also the long sweeps
#   scripts/test.sh -- ARGS    only pytest, in tests/, with these arguments
source "$(dirname "$0")/common.sh"
make_venv
install_package
install_test_tools

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
need_gtest
build=build/tests
cmake -S . -B "$build" -G Ninja -DBUILD_TESTING=ON -DPython_EXECUTABLE="$VENV/bin/python" >/dev/null
run_cpp_tests "$build"
export TORCH_TPU_TEST_FAULT_PLUGIN="$PWD/$build/tests/pjrt/libfault_plugin.so"

say "Python tests"
# Not in the repository's root, where the sources would hide the installed package.
cd tests
python -m pytest -n "$(nproc)" .
