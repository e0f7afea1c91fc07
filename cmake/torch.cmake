# The wheel's libtorch as the target terrace_torch, from TERRACE_TORCH_ROOT; the installed package uses this file too.
# find_package(Torch) would demand a CUDA toolkit even for the CPU build.
if(NOT EXISTS ${TERRACE_TORCH_ROOT}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not in ${TERRACE_TORCH_ROOT}; run tools/setup, or set TERRACE_TORCH_ROOT to the folder "
                      "'torch' of an installed wheel of torch 2.11.0")
endif()

set(torch_libraries ${TERRACE_TORCH_ROOT}/lib/libtorch_cpu.so ${TERRACE_TORCH_ROOT}/lib/libc10.so
    ${TERRACE_TORCH_ROOT}/lib/libgomp.so.1)
set(torch_run_path -Wl,-rpath,${TERRACE_TORCH_ROOT}/lib)
if(TERRACE_CUDA)
  get_filename_component(cuda_runtime ${TERRACE_TORCH_ROOT}/../nvidia/cu13/lib/libcudart.so.13 ABSOLUTE)
  if(NOT EXISTS ${TERRACE_TORCH_ROOT}/../nvidia/cudnn OR NOT EXISTS ${cuda_runtime})
    message(FATAL_ERROR "the CUDA build needs the NVIDIA libraries beside ${TERRACE_TORCH_ROOT}; run tools/setup --cuda")
  endif()
  get_filename_component(cuda_runtime_folder ${cuda_runtime} DIRECTORY)
  list(APPEND torch_libraries ${TERRACE_TORCH_ROOT}/lib/libtorch_cuda.so ${TERRACE_TORCH_ROOT}/lib/libc10_cuda.so ${cuda_runtime})
  list(APPEND torch_run_path -Wl,-rpath,${cuda_runtime_folder})
endif()

add_library(terrace_torch INTERFACE)
# After the system's folders: the wheel carries a newer fmt, which does not go with the system's spdlog.
foreach(folder include include/torch/csrc/api/include)
  target_compile_options(terrace_torch INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${TERRACE_TORCH_ROOT}/${folder}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -idirafter,${TERRACE_TORCH_ROOT}/${folder}>")
endforeach()
# The registration of kernels in libtorch must be kept though no symbol of it may be named: --no-as-needed.
target_link_options(terrace_torch INTERFACE
  -Wl,--no-as-needed ${torch_libraries} -Wl,--as-needed ${torch_run_path} -Wl,--allow-shlib-undefined)

# at::parallel_for is serial in files compiled without OpenMP. The run-time library is the wheel's own, linked above: a
# second one would start a second team of threads. The thread sanitizer cannot see OpenMP's barriers.
if(NOT TERRACE_SANITIZE MATCHES thread)
  target_compile_options(terrace_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
endif()
target_compile_definitions(terrace_torch INTERFACE AT_PER_OPERATOR_HEADERS)
