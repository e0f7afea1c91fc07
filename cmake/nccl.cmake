# NCCL and the CUDA run-time library out of the wheel's NVIDIA packages, or RCCL, as the target terrace_nccl for the backend of
# comm, and the folders with the names of the GPU's maker; the installed package uses this file too.
if(TERRACE_HIP)
  set(TERRACE_GPU_INCLUDE_DIRS ${CMAKE_SOURCE_DIR}/terrace/comm/nccl/gpu/rocm ${CMAKE_SOURCE_DIR}/terrace/base/gpu
      ${CMAKE_SOURCE_DIR}/terrace/base/gpu/rocm)
  add_library(terrace_nccl INTERFACE)
  target_link_libraries(terrace_nccl INTERFACE terrace_rocm)
  return()
elseif(NOT TERRACE_CUDA)
  return()
endif()
get_filename_component(nvidia_packages ${TERRACE_TORCH_ROOT}/../nvidia ABSOLUTE)
set(TERRACE_NCCL_ROOT ${nvidia_packages}/nccl CACHE PATH "Folder with include/nccl.h and lib/libnccl.so.2")
set(TERRACE_GPU_INCLUDE_DIRS ${CMAKE_SOURCE_DIR}/terrace/comm/nccl/gpu/cuda ${CMAKE_SOURCE_DIR}/terrace/base/gpu
    ${CMAKE_SOURCE_DIR}/terrace/base/gpu/cuda ${TERRACE_NCCL_ROOT}/include)
if(NOT EXISTS ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2)
  message(FATAL_ERROR "NCCL is not in ${TERRACE_NCCL_ROOT}; run tools/setup --cuda, or set TERRACE_NCCL_ROOT")
endif()
add_library(terrace_nccl INTERFACE)
target_link_libraries(terrace_nccl INTERFACE ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2
                      ${nvidia_packages}/cu13/lib/libcudart.so.13)
if(NOT TERRACE_RELOCATABLE)  # then cmake/torch.cmake says where they are
  target_link_options(terrace_nccl INTERFACE -Wl,-rpath,${TERRACE_NCCL_ROOT}/lib -Wl,-rpath,${nvidia_packages}/cu13/lib)
endif()
