# Installs the build folder BUILD into an empty prefix under FOLDER.
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
