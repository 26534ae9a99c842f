# Finds pjrt_c_api.h and sets PJRT_INCLUDE_DIR (a cache variable: set it to use another header).
#
# The header comes in the Python wheel xla-cpu-pjrt. It is looked for without importing the package,
# by ${Python_EXECUTABLE}, or by the Python that CMake finds.

if(NOT PJRT_INCLUDE_DIR)
  if(NOT Python_EXECUTABLE)
    find_package(Python COMPONENTS Interpreter)
  endif()
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util as u, pathlib as p; print(p.Path(u.find_spec('xla_plugins.xla_cpu_pjrt').origin).parent / 'include')"
    OUTPUT_VARIABLE _pjrt_wheel_include
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
endif()

find_path(PJRT_INCLUDE_DIR pjrt_c_api.h
  HINTS "${_pjrt_wheel_include}"
  DOC "Folder of pjrt_c_api.h")
mark_as_advanced(PJRT_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PjrtHeader
  REQUIRED_VARS PJRT_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "pip install xla-cpu-pjrt, or set PJRT_INCLUDE_DIR to the folder of pjrt_c_api.h")
