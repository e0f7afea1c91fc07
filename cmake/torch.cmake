# The wheel's libtorch as a target. find_package(Torch) would demand a CUDA toolkit even for the CPU build.
if(NOT EXISTS ${TERRACE_TORCH_ROOT}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not in ${TERRACE_TORCH_ROOT}; run tools/setup, or set TERRACE_TORCH_ROOT")
endif()

add_library(terrace_torch INTERFACE)
add_library(terrace::torch ALIAS terrace_torch)
target_include_directories(terrace_torch SYSTEM INTERFACE
  $<BUILD_INTERFACE:${TERRACE_TORCH_ROOT}/include>
  $<BUILD_INTERFACE:${TERRACE_TORCH_ROOT}/include/torch/csrc/api/include>)
# The registration of kernels in libtorch_cpu must be kept though no symbol of it may be named: --no-as-needed.
target_link_options(terrace_torch INTERFACE
  -Wl,--no-as-needed ${TERRACE_TORCH_ROOT}/lib/libtorch_cpu.so ${TERRACE_TORCH_ROOT}/lib/libc10.so
  ${TERRACE_TORCH_ROOT}/lib/libgomp.so.1 -Wl,--as-needed -Wl,-rpath,${TERRACE_TORCH_ROOT}/lib
  -Wl,--allow-shlib-undefined)

# at::parallel_for is serial in files compiled without OpenMP. The run-time library is the wheel's own, linked above: a
# second one would start a second team of threads. The thread sanitizer cannot see OpenMP's barriers.
if(NOT TERRACE_SANITIZE MATCHES thread)
  target_compile_options(terrace_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
endif()
target_compile_definitions(terrace_torch INTERFACE AT_PER_OPERATOR_HEADERS)
