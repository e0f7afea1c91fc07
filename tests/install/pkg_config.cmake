# Builds the programs of this folder with what pkg-config says of the installation PREFIX, and nothing of CMake's package, and
# runs them.
file(MAKE_DIRECTORY ${FOLDER})
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/lib/pkgconfig)
foreach(program ten_lines training_loop)
  execute_process(COMMAND sh -ec "
      flags=$(pkg-config --cflags terrace)
      libraries=$(pkg-config --libs terrace)
      ${COMPILER} -std=c++20 -O1 $flags ${CMAKE_CURRENT_LIST_DIR}/${program}.cpp -o ${program} $libraries
      ./${program}"
    WORKING_DIRECTORY ${FOLDER} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
