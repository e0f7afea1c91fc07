# The MPI library, for the backend of comm that needs one; where none is found, its stub is built.
# The installed package reads this too, with what was found when it was built.
if(NOT DEFINED TERRACE_MPI)
  option(TERRACE_MPI "Build the MPI backend where an MPI library is found" ON)
endif()
if(TERRACE_MPI)
  # Its C interface is looked for with a C compiler.
  enable_language(C)
  find_package(MPI COMPONENTS C)
  if(MPI_C_FOUND)
    # The C++ bindings that MPI once had are a library of their own.
    set_property(TARGET MPI::MPI_C APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  else()
    message(WARNING "No MPI library was found: terrace will run its ranks as threads of one process only. Install one "
                    "(on Debian libopenmpi-dev and openmpi-bin), or say so with -DTERRACE_MPI=OFF")
  endif()
endif()
