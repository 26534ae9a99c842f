# Finds the torch wheel of ${Python_EXECUTABLE} by its folders, without torch's own CMake package,
# which would ask for a CUDA toolkit where the wheel is one for CUDA.
#
# Targets: TorchWheel::torch, TorchWheel::torch_python. Variable: TORCH_LIBRARY_DIR.

execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 "${Python_EXECUTABLE}" -c
    "import os, torch; print(os.path.dirname(torch.__file__), torch.__version__, int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=';')"
  OUTPUT_VARIABLE _torch
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE _torch_error)
if(_torch)
  list(GET _torch 0 TORCH_ROOT)
  list(GET _torch 1 TORCH_VERSION)
  list(GET _torch 2 TORCH_CXX11_ABI)
  set(TORCH_LIBRARY_DIR "${TORCH_ROOT}/lib")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TorchWheel
  REQUIRED_VARS TORCH_ROOT TORCH_LIBRARY_DIR
  VERSION_VAR TORCH_VERSION
  REASON_FAILURE_MESSAGE "${Python_EXECUTABLE} cannot import torch. ${_torch_error}")

if(TorchWheel_FOUND AND NOT TARGET TorchWheel::torch)
  if(NOT TORCH_VERSION MATCHES "^2\\.13\\.")
    message(WARNING "torch ${TORCH_VERSION}: this source is written for torch 2.13")
  endif()
  add_library(TorchWheel::torch INTERFACE IMPORTED)
  target_include_directories(TorchWheel::torch SYSTEM INTERFACE
    "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(TorchWheel::torch INTERFACE
    _GLIBCXX_USE_CXX11_ABI=${TORCH_CXX11_ABI})
  # torch, torch_cpu and c10 only: what a wheel for CUDA adds is none of our business.
  target_link_libraries(TorchWheel::torch INTERFACE
    "${TORCH_LIBRARY_DIR}/libtorch.so"
    "${TORCH_LIBRARY_DIR}/libtorch_cpu.so"
    "${TORCH_LIBRARY_DIR}/libc10.so")

  add_library(TorchWheel::torch_python INTERFACE IMPORTED)
  target_link_libraries(TorchWheel::torch_python INTERFACE
    TorchWheel::torch "${TORCH_LIBRARY_DIR}/libtorch_python.so")
endif()
