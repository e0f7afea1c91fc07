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
include(${CMAKE_CURRENT_LIST_DIR}/cuda_of_wheel.cmake)
set(TERRACE_NCCL_ROOT ${TERRACE_CUDA_PACKAGES}/nccl CACHE PATH "Folder with include/nccl.h and lib/libnccl.so.2")
set(TERRACE_GPU_INCLUDE_DIRS ${CMAKE_SOURCE_DIR}/terrace/comm/nccl/gpu/cuda ${CMAKE_SOURCE_DIR}/terrace/base/gpu
    ${CMAKE_SOURCE_DIR}/terrace/base/gpu/cuda ${TERRACE_NCCL_ROOT}/include)
if(NOT EXISTS ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2)
  message(FATAL_ERROR "NCCL is not in ${TERRACE_NCCL_ROOT}; run tools/setup --cuda, or set TERRACE_NCCL_ROOT")
endif()
add_library(terrace_nccl INTERFACE)
target_link_libraries(terrace_nccl INTERFACE ${TERRACE_NCCL_ROOT}/lib/libnccl.so.2
                      ${TERRACE_CUDART})
if(NOT TERRACE_RELOCATABLE)  # then cmake/torch.cmake says where they are
  target_link_options(terrace_nccl INTERFACE -Wl,-rpath,${TERRACE_NCCL_ROOT}/lib)
  foreach(folder IN LISTS TERRACE_CUDA_FOLDERS)
    target_link_options(terrace_nccl INTERFACE -Wl,-rpath,${TERRACE_CUDA_PACKAGES}/${folder}/lib)
  endforeach()
endif()
