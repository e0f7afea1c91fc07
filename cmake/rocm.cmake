# ROCm, for the build with TERRACE_HIP: its folder, and as the target terrace_rocm HIP's run-time library and RCCL, of the wheel of
# torch where that has them. The installed package uses this file too.
if(NOT TERRACE_HIP)
  return()
endif()

if(NOT TERRACE_ROCM_ROOT)
  if(IS_DIRECTORY "$ENV{ROCM_PATH}")
    set(TERRACE_ROCM_ROOT $ENV{ROCM_PATH})
  else()
    set(TERRACE_ROCM_ROOT /opt/rocm)
  endif()
endif()
set(TERRACE_ROCM_ROOT ${TERRACE_ROCM_ROOT} CACHE PATH "Folder of ROCm: ROCM_PATH, else /opt/rocm")
foreach(header hip/hip_version.h rccl/rccl.h)
  if(NOT EXISTS ${TERRACE_ROCM_ROOT}/include/${header})
    message(FATAL_ERROR "TERRACE_HIP needs ROCm with RCCL, and ${TERRACE_ROCM_ROOT}/include has no ${header}; load ROCm's module, which sets "
                        "ROCM_PATH, name its folder with -DTERRACE_ROCM_ROOT=FOLDER, or build with -DTERRACE_HIP=OFF")
  endif()
endforeach()
file(STRINGS ${TERRACE_ROCM_ROOT}/include/hip/hip_version.h lines REGEX "define HIP_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" TERRACE_HIP_VERSION "${lines}")
set(rocm_headers -isystem ${TERRACE_ROCM_ROOT}/include)
if(TERRACE_ROCM_ROOT STREQUAL /usr)  # compilers look there after their own headers, and must
  set(rocm_headers "")
endif()

# Folder of torch's libraries, for tests that put others in their place.
if(NOT TERRACE_TORCH_LIBRARIES)
  set(TERRACE_TORCH_LIBRARIES ${TERRACE_TORCH_ROOT}/lib)
endif()
if(NOT EXISTS ${TERRACE_TORCH_LIBRARIES}/libtorch_hip.so)
  message(FATAL_ERROR "torch in ${TERRACE_TORCH_ROOT} is not built for AMD's GPUs: ${TERRACE_TORCH_LIBRARIES} has no libtorch_hip.so; install "
                      "torch 2.11.0 for ROCm and set TERRACE_TORCH_ROOT to its folder 'torch' (docs/frontier.md), or build with "
                      "-DTERRACE_HIP=OFF")
endif()
# The structures of HIP's functions differ between its major versions.
set(line "")
if(EXISTS ${TERRACE_TORCH_ROOT}/version.py)
  file(STRINGS ${TERRACE_TORCH_ROOT}/version.py line REGEX "^hip.*'[0-9]+\\." LIMIT_COUNT 1)
endif()
string(REGEX REPLACE ".*'([0-9]+)\\..*" "\\1" hip_of_torch "${line}")
if(hip_of_torch AND NOT TERRACE_HIP_VERSION MATCHES "^${hip_of_torch}\\.")
  message(FATAL_ERROR "torch in ${TERRACE_TORCH_ROOT} is built with HIP ${hip_of_torch}, and ${TERRACE_ROCM_ROOT} has HIP ${TERRACE_HIP_VERSION}; "
                      "load the module of ROCm ${hip_of_torch}, or install torch for the ROCm that is loaded")
endif()

# terrace_library_of_wheel(NAME LIST): appends what to link so that a program loads the wheel's copy of a library. The wheel carries its
# libraries under names without versions, by which torch needs them, but they still call themselves by names with versions. A
# program that needs those loads another copy beside the wheel's (github.com/pytorch/pytorch, issue 141014), and a kernel that is
# registered in one is then launched through the other. So the program first needs the name without a version, for which an empty
# library stands in while linking; the loader then takes the name with a version for the library that it has loaded.
function(terrace_library_of_wheel name list)
  set(in_place ${CMAKE_BINARY_DIR}/rocm_names/lib${name}.so)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/rocm_names)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -shared -nostdlib -Wl,-soname,lib${name}.so -o ${in_place} -x c++ /dev/null
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${list} ${${list}} ${in_place} ${TERRACE_TORCH_LIBRARIES}/lib${name}.so PARENT_SCOPE)
endfunction()

set(rocm_libraries "")
# The old kind of run path holds before LD_LIBRARY_PATH, in which the module puts ROCm's copies.
set(rocm_run_path -Wl,--disable-new-dtags)
foreach(name amdhip64 rccl)
  if(EXISTS ${TERRACE_TORCH_LIBRARIES}/lib${name}.so)
    terrace_library_of_wheel(${name} rocm_libraries)
  else()  # a torch that was built on the machine uses ROCm's
    find_library(TERRACE_${name}_LIBRARY ${name} PATHS ${TERRACE_ROCM_ROOT} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
    if(NOT TERRACE_${name}_LIBRARY)
      message(FATAL_ERROR "lib${name}.so is neither with torch in ${TERRACE_TORCH_LIBRARIES} nor in ${TERRACE_ROCM_ROOT}/lib; install it, or name "
                          "it with -DTERRACE_${name}_LIBRARY=FILE")
    endif()
    list(APPEND rocm_libraries ${TERRACE_${name}_LIBRARY})
    get_filename_component(folder ${TERRACE_${name}_LIBRARY} DIRECTORY)
    list(APPEND rocm_run_path -Wl,-rpath,${folder})
  endif()
endforeach()
if(NOT TERRACE_RELOCATABLE)  # then cmake/torch.cmake says where torch's are
  list(APPEND rocm_run_path -Wl,-rpath,${TERRACE_TORCH_LIBRARIES})
endif()
list(JOIN rocm_libraries " " rocm_libraries)

add_library(terrace_rocm INTERFACE)
target_link_options(terrace_rocm INTERFACE "SHELL:-Wl,--no-as-needed ${rocm_libraries} -Wl,--as-needed" ${rocm_run_path}
                                           -Wl,--allow-shlib-undefined)
