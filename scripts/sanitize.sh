#!/usr/bin/env bash
# Builds everything with GCC's sanitizers, and runs the C++ tests and a part of the Python tests.
#   scripts/sanitize.sh            addresses and undefined behaviour
#   scripts/sanitize.sh thread     data races
source "$(dirname "$0")/common.sh"
kind="${1:-address}"
case "$kind" in
  address) sanitizers="address;undefined" runtimes="asan ubsan" ;;
  thread) sanitizers="thread" runtimes="tsan" ;;
  *)
    echo "usage: scripts/sanitize.sh [address|thread]" >&2
    exit 2
    ;;
esac
make_venv
install_build_tools
install_test_tools
need_gtest

say "Building with sanitizers: $sanitizers"
build="build/sanitize-$kind" site="$PWD/build/sanitize-$kind/site"
pip install -q --no-build-isolation --no-deps --upgrade --target "$site" -C build-dir="$build" \
  -C cmake.define.TORCH_TPU_SANITIZE="$sanitizers" -C cmake.define.BUILD_TESTING=ON .

# Tests ask for more memory than there is: that must fail as it does without a sanitizer.
export ASAN_OPTIONS=allocator_may_return_null=1
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan_suppressions.txt"
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS="suppressions=$PWD/tests/tsan_suppressions.txt:allocator_may_return_null=1"

say "C++ tests"
run_cpp_tests "$build"

say "Python tests"
# Python keeps much until the process ends: leaks are not looked for.
ASAN_OPTIONS+=:detect_leaks=0
# It is not sanitized, so the runtimes must be there before it; and with them libstdc++, whose
# exceptions they watch.
preload=""
for name in $runtimes stdc++; do preload+="$(c++ -print-file-name="lib$name.so") "; done
export PYTHONPATH="$site" TORCH_TPU_TEST_PROGRAMS=100
cd tests
if [ "$kind" = thread ]; then
  LD_PRELOAD="$preload" python -m pytest device/test_threads.py
  exit
fi
LD_PRELOAD="$preload" python -m pytest device tensors schedules
LD_PRELOAD="$preload" python -m pytest ops training --every 20
