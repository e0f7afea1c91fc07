"""What the folder that tools/gpu_bundle makes consists of: the packages of tools/gpu_packages.txt, and files whose hashes are in
its hashes.txt. Also the environment in which its programs run."""
import pathlib

from bundle_files import read_packages

PACKAGE_LIST = pathlib.Path(__file__).resolve().parent / "gpu_packages.txt"
# Folder of the libraries within the bundle.
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Programs that tools/gpu_check runs, by their place in the folder of the build.
PROGRAMS = ["terrace", "test_ops", "test_optim", "tests/comm/mpi/mpi_ranks", "tests/comm/mpi/mpi_real_gpus", "bench/bench_step_trainer"]


def packages():
    return read_packages(PACKAGE_LIST)


def joined(*folders):
    """A search path of these folders, without the empty ones."""
    return ":".join(str(folder) for folder in folders if str(folder))


def program_environment(bundle, inherited, more_libraries=""):
    """For programs of the bundle: the inherited variables, and where pkg-config, Open MPI and the loader find its files. The
    loader looks into the folders of `more_libraries` next, and then into those of the inherited LD_LIBRARY_PATH."""
    libraries = bundle / LIBRARIES
    return {
        **inherited,
        "PATH": f"{bundle / 'usr/bin'}:{inherited['PATH']}",
        "LD_LIBRARY_PATH": joined(libraries, more_libraries, inherited.get("LD_LIBRARY_PATH", "")),
        # These folders also take the place of the machine's own, whose packages are not below this root.
        "PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": f"{libraries}/pkgconfig:{bundle}/usr/share/pkgconfig",
        "PKG_CONFIG_SYSROOT_DIR": str(bundle),
        "OPAL_PREFIX": f"{libraries}/openmpi", "OPAL_BINDIR": str(bundle / "usr/bin"), "OPAL_LIBDIR": f"{libraries}/openmpi/lib",
        "OPAL_DATADIR": str(bundle / "usr/share"), "OPAL_PKGDATADIR": str(bundle / "usr/share/openmpi"),
        "PMIX_INSTALL_PREFIX": f"{libraries}/pmix2", "PMIX_LIBDIR": f"{libraries}/pmix2/lib",
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none", "OMP_NUM_THREADS": "1",
        # Without this value Open MPI looks for ssh, although all ranks run on this machine.
        "OMPI_MCA_plm": "isolated",
    }  # fmt: skip
