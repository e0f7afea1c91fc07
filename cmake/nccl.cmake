# NCCL and the CUDA run-time library out of the wheel's NVIDIA packages, as the target terrace_nccl for the backend of
# comm; the installed package uses this file too. For AMD's GPUs the same sources are compiled with the folder gpu/rocm
# in place of gpu/cuda, ROCm's include folder, and its libraries.
if(NOT TERRACE_CUDA)
  return()
endif()
if(NOT TERRACE_GPU_MAKER)
  set(TERRACE_GPU_MAKER cuda CACHE STRING "Folder of terrace/comm/nccl/gpu with the names of the GPU's maker: cuda or rocm")
endif()
get_filename_component(nvidia_packages ${TERRACE_TORCH_ROOT}/../nvidia ABSOLUTE)
set(TERRACE_NCCL_ROOT ${nvidia_packages}/nccl CACHE PATH "Folder with include/nccl.h and lib/libnccl.so.2")
set(TERRACE_GPU_INCLUDE_DIRS ${CMAKE_SOURCE_DIR}/terrace/comm/nccl/gpu/${TERRACE_GPU_MAKER} ${CMAKE_SOURCE_DIR}/terrace/base/gpu
    ${CMAKE_SOURCE_DIR}/terrace/base/gpu/${TERRACE_GPU_MAKER} ${TERRACE_NCCL_ROOT}/include)
if(NOT EXISTS ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2)
  message(FATAL_ERROR "NCCL is not in ${TERRACE_NCCL_ROOT}; run tools/setup --cuda, or set TERRACE_NCCL_ROOT")
endif()
add_library(terrace_nccl INTERFACE)
target_link_libraries(terrace_nccl INTERFACE ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2
                      ${nvidia_packages}/cu13/lib/libcudart.so.13)
if(NOT TERRACE_RELOCATABLE)  # then cmake/torch.cmake says where they are
  target_link_options(terrace_nccl INTERFACE -Wl,-rpath,${TERRACE_NCCL_ROOT}/lib -Wl,-rpath,${nvidia_packages}/cu13/lib)
endif()
