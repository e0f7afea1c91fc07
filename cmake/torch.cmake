# The wheel's libtorch as the target terrace_torch, from TERRACE_TORCH_ROOT; the installed package uses this file too.
# find_package(Torch) would demand a CUDA toolkit even for the CPU build.
if(NOT EXISTS ${TERRACE_TORCH_ROOT}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch is not in ${TERRACE_TORCH_ROOT}; run tools/setup, or set TERRACE_TORCH_ROOT to the folder "
                      "'torch' of an installed wheel of torch 2.11.0")
endif()

set(torch_folder ${TERRACE_TORCH_ROOT}/lib)
if(TERRACE_HIP)
  set(torch_folder ${TERRACE_TORCH_LIBRARIES})
endif()
set(torch_libraries ${torch_folder}/libtorch_cpu.so ${torch_folder}/libc10.so)
if(EXISTS ${torch_folder}/libgomp.so.1)
  list(APPEND torch_libraries ${torch_folder}/libgomp.so.1)
elseif(TERRACE_HIP AND EXISTS ${torch_folder}/libgomp.so)
  terrace_library_of_wheel(gomp torch_libraries)
else()  # a torch that was built on the machine has the system's
  list(APPEND torch_libraries -lgomp)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Clang's parallel regions call LLVM's run-time library of OpenMP. It has GCC's functions too, and as it stands first, torch's
  # regions call these: one team of threads serves both.
  foreach(name libomp.so libiomp5.so)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE llvm_openmp OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(IS_ABSOLUTE "${llvm_openmp}")
      break()
    endif()
  endforeach()
  if(NOT IS_ABSOLUTE "${llvm_openmp}")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no libomp.so; install LLVM's OpenMP library of the same version (on Debian "
                        "libomp-VERSION-dev), or build with GCC")
  endif()
  list(PREPEND torch_libraries ${llvm_openmp})
endif()
set(torch_run_path -Wl,-rpath,${torch_folder})
if(TERRACE_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/cuda_of_wheel.cmake)
  list(APPEND torch_libraries ${TERRACE_TORCH_ROOT}/lib/libtorch_cuda.so ${TERRACE_TORCH_ROOT}/lib/libc10_cuda.so ${TERRACE_CUDART}
       ${TERRACE_CUBLASLT})
  foreach(folder IN LISTS TERRACE_CUDA_FOLDERS)
    list(APPEND torch_run_path -Wl,-rpath,${TERRACE_CUDA_PACKAGES}/${folder}/lib)
  endforeach()
endif()

if(TERRACE_HIP)
  list(APPEND torch_libraries ${torch_folder}/libtorch_hip.so ${torch_folder}/libc10_hip.so)
endif()

if(TERRACE_RELOCATABLE)
  # Beside torch are NVIDIA's libraries, as in the folder of the wheel, where torch itself looks for them.
  set(torch_run_path "")
  set(wheel_folders torch/lib)
  if(TERRACE_CUDA)
    foreach(folder IN LISTS TERRACE_CUDA_FOLDERS)
      list(APPEND wheel_folders nvidia/${folder}/lib)
    endforeach()
    list(APPEND wheel_folders nvidia/nccl/lib)
  endif()
  foreach(folder IN LISTS wheel_folders)
    list(APPEND CMAKE_BUILD_RPATH ${TERRACE_TORCH_ROOT}/../${folder})
    list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../lib/terrace/${folder}")
  endforeach()
  # The folders of the machine's own libraries, such as MPI's.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

add_library(terrace_torch INTERFACE)
if(TERRACE_HIP)
  target_link_libraries(terrace_torch INTERFACE terrace_rocm)
endif()
# These folders come after the system's: the wheel carries a newer fmt, which does not go with the system's spdlog.
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
