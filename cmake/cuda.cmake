# The CUDA language, for the build with TERRACE_CUDA; without it no file of the toolkit is looked for.
if(NOT TERRACE_CUDA)
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  find_program(TERRACE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TERRACE_NVCC)
    message(FATAL_ERROR "TERRACE_CUDA needs the CUDA toolkit 13 or 12, as torch's wheel does, and nvcc is neither in PATH nor under CUDA_HOME; "
                        "install it, name it with -DCMAKE_CUDA_COMPILER=.../nvcc, or build with -DTERRACE_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${TERRACE_NVCC})
endif()

# nvcc knows the B200 from CUDA 12.8 on.
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known_gpus ERROR_QUIET)
set(gpus 80 90)
if(known_gpus MATCHES "compute_100" OR known_gpus STREQUAL "")
  list(APPEND gpus 100)
endif()
set(TERRACE_CUDA_ARCHITECTURES "${gpus}" CACHE STRING "GPU architectures to compile for: A100 is 80, H100 90, B200 100")
set(CMAKE_CUDA_ARCHITECTURES ${TERRACE_CUDA_ARCHITECTURES})

# The run-time library is the wheel's, which cmake/torch.cmake links: with a second one inside our binary, a kernel
# registered in one would be launched through the other.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# CMake 3.25 knows no C++20 dialect of nvcc: it refuses a required CUDA_STANDARD of 20 and drops one that is not
# required without a word. So none is set, and the flag comes from here.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
# No fused multiply-adds, as in cmake/compile.cmake: a kernel that wants one says fma() itself.
# fmt 9 takes constexpr away from half of its functions under nvcc, and its checks of format strings do not compile then.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-DFMT_USE_CONSTEXPR=1;--fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall>")
