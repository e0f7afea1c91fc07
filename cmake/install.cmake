# cmake --install: headers, one static library a room, the package that find_package(terrace) reads, and the binary.
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
          DESTINATION ${package})
  if(TERRACE_LIBRARIES)
    install(DIRECTORY ${TERRACE_LIBRARIES}/ DESTINATION lib/terrace/libraries)
  endif()
  if(TARGET terrace_program)
    # Without TERRACE_RELOCATABLE the run path into the wheel is a link option of terrace_torch and stays in the binary.
    install(TARGETS terrace_program RUNTIME DESTINATION bin)
    terrace_install_own_texts()
  endif()
endfunction()

# The manual page and the completion of shells, which the program prints of itself.
function(terrace_install_own_texts)
  set(folder ${CMAKE_BINARY_DIR}/own_texts)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${folder}/terrace.1 ${folder}/terrace ${folder}/_terrace ${folder}/terrace.fish
    COMMAND terrace_program man > ${folder}/terrace.1
    COMMAND terrace_program completion bash > ${folder}/terrace
    COMMAND terrace_program completion zsh > ${folder}/_terrace
    COMMAND terrace_program completion fish > ${folder}/terrace.fish
    DEPENDS terrace_program VERBATIM)
  add_custom_target(own_texts ALL DEPENDS ${folder}/terrace.1)
  install(FILES ${folder}/terrace.1 DESTINATION share/man/man1)
  install(FILES ${folder}/terrace DESTINATION share/bash-completion/completions)
  install(FILES ${folder}/_terrace DESTINATION share/zsh/site-functions)
  install(FILES ${folder}/terrace.fish DESTINATION share/fish/vendor_completions.d)
endfunction()
