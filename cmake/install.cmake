# cmake --install: headers, one static library a room, the package that find_package(terrace) reads, a file for pkg-config, and
# the binary.
include(CMakePackageConfigHelpers)

function(terrace_install)
  get_property(rooms GLOBAL PROPERTY terrace_rooms)
  list(TRANSFORM rooms PREPEND terrace_ OUTPUT_VARIABLE libraries)
  add_library(terrace_library INTERFACE)
  add_library(terrace::terrace ALIAS terrace_library)
  set_target_properties(terrace_library PROPERTIES EXPORT_NAME terrace)
  target_link_libraries(terrace_library INTERFACE ${libraries})

  set(package lib/cmake/terrace)
  install(TARGETS terrace_library ${libraries} EXPORT terrace-targets ARCHIVE DESTINATION lib)
  install(EXPORT terrace-targets NAMESPACE terrace:: DESTINATION ${package})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/terrace DESTINATION include
          FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/terrace-config.cmake.in
    ${CMAKE_BINARY_DIR}/terrace-config.cmake INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/terrace-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/terrace-config.cmake ${CMAKE_BINARY_DIR}/terrace-config-version.cmake
                ${CMAKE_SOURCE_DIR}/cmake/torch.cmake ${CMAKE_SOURCE_DIR}/cmake/rocm.cmake ${CMAKE_SOURCE_DIR}/cmake/libraries.cmake
                ${CMAKE_SOURCE_DIR}/cmake/bundled_libraries.cmake ${CMAKE_SOURCE_DIR}/cmake/mpi.cmake ${CMAKE_SOURCE_DIR}/cmake/nccl.cmake
                ${CMAKE_SOURCE_DIR}/cmake/cuda_of_wheel.cmake
          DESTINATION ${package})
  terrace_install_pkg_config_file("${libraries}")
  if(TERRACE_LIBRARIES)
    install(DIRECTORY ${TERRACE_LIBRARIES}/ DESTINATION lib/terrace/libraries)
  endif()
  if(TARGET terrace_program)
    # Without TERRACE_RELOCATABLE the run path into the wheel is a link option of terrace_torch and stays in the binary.
    install(TARGETS terrace_program RUNTIME DESTINATION bin)
    terrace_install_own_texts()
  endif()
endfunction()

# The file by which build systems that ask pkg-config get what find_package(terrace) gives others. The libraries are
# static, so all that they need stands in it.
function(terrace_install_pkg_config_file rooms)
  list(TRANSFORM rooms PREPEND -l)
  string(JOIN " " pc_rooms ${rooms})
  set(libraries "")
  if(TERRACE_LIBRARIES)
    set(pc_requires "")
    set(bundled ${terrace_bundled_archives})
    list(TRANSFORM bundled PREPEND -l)
    # libtorch exports functions of some of the same names.
    list(APPEND libraries "-L\${libdir}/terrace/libraries/lib" -Wl,--exclude-libs,ALL -Wl,--start-group ${bundled} -Wl,--end-group)
    set(pc_flags " -I\${libdir}/terrace/libraries/include -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DPCRE2_STATIC -DUTF8PROC_STATIC")
  else()
    set(pc_requires "fmt spdlog nlohmann_json tomlplusplus zlib libpcre2-8 libutf8proc libxxhash libzstd sentencepiece xgboost")
    if(terrace_netcdf)
      string(APPEND pc_requires " netcdf hdf5")
    endif()
    if(terrace_udunits)
      string(APPEND pc_requires " udunits")
    endif()
    list(APPEND libraries -lsentencepiece_train)
    set(pc_flags "")
  endif()
  if(TERRACE_TRAINING)
    string(APPEND pc_flags " -DAT_PER_OPERATOR_HEADERS -fopenmp -idirafter \${torch}/include -idirafter \${torch}/include/torch/csrc/api/include")
    get_target_property(of_torch terrace_torch INTERFACE_LINK_OPTIONS)
    string(REPLACE "${TERRACE_TORCH_ROOT}" "\${torch}" of_torch "${of_torch}")
    list(APPEND libraries ${of_torch})
    if(TERRACE_RELOCATABLE)  # the programs of an installation get it in another way
      list(APPEND libraries "-Wl,-rpath,\${torch}/lib")
    endif()
    if(MPI_C_FOUND)
      list(APPEND libraries ${MPI_C_LINK_FLAGS} ${MPI_C_LIBRARIES})
    endif()
    foreach(target terrace_nccl terrace_rocm)
      if(TARGET ${target})
        get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
        get_target_property(options ${target} INTERFACE_LINK_OPTIONS)
        list(APPEND libraries ${linked} ${options})
      endif()
    endforeach()
    list(FILTER libraries EXCLUDE REGEX "NOTFOUND$|^terrace_rocm$")
  endif()
  list(APPEND libraries "-Wl,-rpath,\${libdir}/terrace" -ldl -lpthread -lm)
  list(JOIN libraries " " pc_libraries)
  string(REPLACE "SHELL:" "" pc_libraries "${pc_libraries}")
  string(PREPEND pc_libraries " ")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/terrace.pc.in ${CMAKE_BINARY_DIR}/terrace.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/terrace.pc DESTINATION lib/pkgconfig)
endfunction()

# The manual page and the completion of shells, which the program prints of itself.
function(terrace_install_own_texts)
  set(folder ${CMAKE_BINARY_DIR}/own_texts)
  file(MAKE_DIRECTORY ${folder})
  # The texts are made with the program, so that cmake --install finds them whatever target was built.
  add_custom_command(TARGET terrace_program POST_BUILD
    BYPRODUCTS ${folder}/terrace.1 ${folder}/terrace ${folder}/_terrace ${folder}/terrace.fish
    COMMAND terrace_program man > ${folder}/terrace.1
    COMMAND terrace_program completion bash > ${folder}/terrace
    COMMAND terrace_program completion zsh > ${folder}/_terrace
    COMMAND terrace_program completion fish > ${folder}/terrace.fish
    VERBATIM)
  install(FILES ${folder}/terrace.1 DESTINATION share/man/man1)
  install(FILES ${folder}/terrace DESTINATION share/bash-completion/completions)
  install(FILES ${folder}/_terrace DESTINATION share/zsh/site-functions)
  install(FILES ${folder}/terrace.fish DESTINATION share/fish/vendor_completions.d)
endfunction()
