# The HIP language, for the build with TERRACE_HIP; without it no file of ROCm is looked for.
if(NOT TERRACE_HIP)
  return()
endif()

if(NOT CMAKE_HIP_COMPILER)
  find_program(TERRACE_HIP_CLANG clang++ PATHS ${TERRACE_ROCM_ROOT} PATH_SUFFIXES lib/llvm/bin llvm/bin NO_DEFAULT_PATH)
  if(NOT TERRACE_HIP_CLANG)
    message(FATAL_ERROR "TERRACE_HIP needs ROCm's clang++, which is neither in ${TERRACE_ROCM_ROOT}/lib/llvm/bin nor in llvm/bin; install "
                        "ROCm's compiler, name it with -DCMAKE_HIP_COMPILER=.../clang++, or build with -DTERRACE_HIP=OFF")
  endif()
  set(CMAKE_HIP_COMPILER ${TERRACE_HIP_CLANG})
endif()

# MI250X is gfx90a, MI300 gfx942, which compilers before ROCm 6 do not know.
if(NOT DEFINED TERRACE_HIP_ARCHITECTURES)
  set(architectures gfx90a)
  execute_process(COMMAND ${CMAKE_HIP_COMPILER} -x hip --offload-arch=gfx942 --cuda-device-only -nogpuinc -nogpulib -c /dev/null -o /dev/null
                  RESULT_VARIABLE failure OUTPUT_QUIET ERROR_QUIET)
  if(failure EQUAL 0)
    list(APPEND architectures gfx942)
  endif()
  set(TERRACE_HIP_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to compile for: MI250X is gfx90a, MI300 gfx942")
endif()
set(CMAKE_HIP_ARCHITECTURES ${TERRACE_HIP_ARCHITECTURES})

# CMake looks for ROCm's own packages in projects of its own, which see the environment alone.
set(CMAKE_HIP_COMPILER_ROCM_ROOT ${TERRACE_ROCM_ROOT})
set(ENV{CMAKE_PREFIX_PATH} "${TERRACE_ROCM_ROOT}:$ENV{CMAKE_PREFIX_PATH}")
set(CMAKE_HIP_FLAGS_INIT "--rocm-path=${TERRACE_ROCM_ROOT}")
# The run-time library is the one of torch, which cmake/rocm.cmake links.
set(CMAKE_HIP_RUNTIME_LIBRARY None)
enable_language(HIP)
set(CMAKE_HIP_STANDARD 20)
set(CMAKE_HIP_STANDARD_REQUIRED ON)
set(CMAKE_HIP_EXTENSIONS OFF)
# The C++ compiler links, since Cray's wrapper of it brings MPI.
set(CMAKE_HIP_LINK_EXECUTABLE "<CMAKE_CXX_COMPILER> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> <LINK_LIBRARIES>")

# No fused multiply-adds, as in cmake/compile.cmake. Functions become part of their kernels, as hipcc has them too.
set(hip_warnings -Wall -Wextra)
if(TERRACE_STRICT)
  list(APPEND hip_warnings -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:HIP>:${rocm_headers};${hip_warnings};-ffp-contract=off>"
                    "$<$<COMPILE_LANGUAGE:HIP>:SHELL:-mllvm -amdgpu-early-inline-all=true -mllvm -amdgpu-function-calls=false>")
