# ccache and lld where they are present, and sanitizers where they are asked for.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers need these to be cacheable.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env"
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "${CCACHE_PROGRAM}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

# A sanitized library is loaded by a Python that is not: preload the compiler's libasan.so (libtsan.so).
if(TORCH_TPU_SANITIZE)
  string(REPLACE ";" "," _sanitizers "${TORCH_TPU_SANITIZE}")
  # -O1 and line tables: enough to find things, and built in a bearable time.
  add_compile_options(-fsanitize=${_sanitizers} -fno-omit-frame-pointer -O1 -g1)
  add_link_options(-fsanitize=${_sanitizers})
  if(TORCH_TPU_SANITIZE MATCHES "undefined")
    # torch's classes have their type information elsewhere.
    add_compile_options(-fno-sanitize=vptr -fno-sanitize-recover=undefined)
  endif()
endif()
