# The MPI library, for the backend of comm that needs one; where none is found, its stub is built.
# The installed package reads this too, with what was found when it was built.
if(NOT DEFINED TERRACE_MPI)
  option(TERRACE_MPI "Build the MPI backend where an MPI library is found" ON)
endif()
if(TERRACE_MPI)
  # The C interface of MPI is looked for with a C compiler.
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

# Lets ranks of a test run as root, more of them than cores, and not bound to the same one; further NAME=VALUE may follow
# the test's name. Open MPI keeps memory until the process ends, so leaks are not looked for. Such tests take two cores, which
# are free together only at the start of a run: they come first, with a test of one core beside each.
function(terrace_mpi_test test)
  set_tests_properties(${test} PROPERTIES PROCESSORS 2 COST 2000)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1 ${ARGN})
endfunction()
