# Spack recipe of terrace from the archive of tools/bundle. TERRACE_ARCHIVE names the archive; its SHA-256 is computed here, as each commit
# has an archive of its own:
#   spack repo add packaging/spack
#   TERRACE_ARCHIVE=$PWD/build/terrace-0.1.0.tar.gz spack install terrace +mpi
import hashlib
import os
import pathlib

from spack.package import *

try:  # since Spack 1.0 in the repository of packages, before in Spack itself
    from spack_repo.builtin.build_systems.cuda import CudaPackage
    from spack_repo.builtin.build_systems.generic import Package
except ImportError:
    pass

ARCHIVE = pathlib.Path(os.environ.get("TERRACE_ARCHIVE", "build/terrace-0.1.0.tar.gz")).absolute()


class Terrace(Package, CudaPackage):
    """Plans, searches for, and runs the training of large models: language models, weather transformers, graph networks."""

    url = ARCHIVE.as_uri()
    # Without the archive Spack can still show the recipe; it then refuses to install.
    version("0.1.0", sha256=hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() if ARCHIVE.exists() else 64 * "0")

    variant("mpi", default=True, description="Ranks as processes under MPI; without it they are threads of one process")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("py-torch@2.11")
    depends_on("py-torch+cuda", when="+cuda")
    depends_on("cuda@13", when="+cuda")
    conflicts("%gcc@:11", msg="terrace needs GCC 12 or later")
    conflicts("%clang@:15", msg="terrace needs Clang 16 or later")

    def install(self, spec, prefix):
        (torch,) = pathlib.Path(spec["py-torch"].prefix).glob("lib*/python3*/site-packages/torch")
        # Spack keeps its own files in the prefix, and tools/setup makes whole folders; what it installs may be moved.
        made = os.path.join(self.stage.path, "installed")
        options = ["--from", self.stage.source_path, "--torch", str(torch), "--link-torch", "--prefix", made,
                   "--build", os.path.join(self.stage.path, "built"), "--jobs", str(make_jobs)]  # fmt: skip
        if "~mpi" in spec:
            options.append("--without-mpi")
        if "+cuda" in spec:
            options.append("--cuda")
            if spec.variants["cuda_arch"].value != ("none",):
                os.environ["TERRACE_CUDA_ARCHITECTURES"] = ";".join(spec.variants["cuda_arch"].value)
        Executable(os.path.join(self.stage.source_path, "tools", "setup"))(*options)
        install_tree(made, prefix, symlinks=True)
