# Compiler settings that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(TERRACE_CCACHE ccache)
if(TERRACE_CCACHE)
  # Without the build folder in the hash and with paths relative to it, every clone and build folder shares one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${TERRACE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_HIP_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Contraction into fused multiply-adds would make a value depend on whether it fell into a vector loop or its tail.
# Without errno and floating-point traps, square roots and divisions in loops become vectors; values stay the same.
# How vectors are passed to functions (-Wpsabi) does not matter where all of them are inlined.
# GCC 12 reports falsely: -Wrestrict on std::string::insert, -Wstringop-overflow on fmt::join at -O3.
option(TERRACE_STRICT "Take warnings for errors; OFF for compilers that the project does not test" ON)
set(warnings -Wall -Wextra)
if(TERRACE_STRICT)
  list(APPEND warnings -Werror)
endif()
list(APPEND warnings -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND warnings -Wno-restrict -Wno-stringop-overflow)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${warnings};-ffp-contract=off;-fno-math-errno;-fno-trapping-math>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A compilation allocates less than this many KiB, so that GCC searches none of it for garbage: a tenth of its time.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>")
endif()
find_program(TERRACE_LLD ld.lld)
if(TERRACE_LLD)
  add_link_options(-fuse-ld=lld)
endif()
if(TERRACE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TERRACE_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  # The sanitizers call dlopen() in the program's place, so that only the old kind of run path, which holds for every
  # library, leads to terrace_parquet.so.
  add_link_options(-fsanitize=${TERRACE_SANITIZE} -Wl,--disable-new-dtags)
endif()
