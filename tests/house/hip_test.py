"""Compiles all kernels for AMD's GPUs with hipcc for MI250X, and the NCCL backend and its test on GPUs with the headers of HIP and RCCL.

RCCL's header is NCCL's with HIP's names, which RCCL's own build makes by replacing the names; Debian has no RCCL, so the
header is made here in the same way from that of the wheel's NCCL. Exits with 77 where hipcc or that header is missing.
Kernels that have not changed come from the compiler cache where there is one.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NCCL = SOURCE / ".deps/python/lib/python3.11/site-packages/nvidia/nccl/include/nccl.h"
HEADERS = SOURCE / "build/hip"
NAMES = [("cuda_runtime.h", "hip/hip_runtime.h"), ("cuda_fp16.h", "hip/hip_fp16.h"), ("cudaStream_t", "hipStream_t")]
WARNINGS = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-DSPDLOG_FMT_EXTERNAL", "-D__HIP_PLATFORM_AMD__"]


def write_rccl_header(folder):
    text = NCCL.read_text()
    for cuda, hip in NAMES:
        text = text.replace(cuda, hip)
    # The types of CUDA that HIP has under other names; no function of the header takes them.
    text = re.sub(r"^#include <cuda_.*>\n", "", text, flags=re.MULTILINE)
    header = folder / "rccl/rccl.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    if not header.exists() or header.read_text() != text:  # the cache does not trust a header that is just written
        header.write_text(text)


def main():
    if shutil.which("hipcc") is None or not NCCL.exists():
        print("hipcc or NCCL's header is not installed; tools/setup --test installs both")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_rccl_header(HEADERS)
        includes = ["-I.", "-Iterrace/comm/nccl/gpu/rocm", "-Iterrace/base/gpu", "-Iterrace/base/gpu/rocm", f"-I{HEADERS}"]
        objects = {kernels: folder / f"{number}.o" for number, kernels in enumerate(sorted(SOURCE.glob("terrace/**/*.cu")))}
        cache = ["ccache"] if shutil.which("ccache") else []
        environment = os.environ | {"CCACHE_COMPILERTYPE": "clang"}
        commands = [[*cache, "hipcc", "-x", "hip", "--offload-arch=gfx90a", "-ffp-contract=off", "-c", kernels.relative_to(SOURCE), "-o", name]
                    for kernels, name in objects.items()]
        commands += [["c++", "-c", source, "-o", folder / "host.o"] for source in (*sorted(SOURCE.glob("terrace/comm/nccl/*.cpp")), "tests/comm/mpi/real_gpus.cpp")]
        for command in commands:
            print(*command, flush=True)
            if subprocess.run([*command, *WARNINGS, *includes], cwd=SOURCE, env=environment).returncode != 0:
                return 1
        # The objects hold code for the GPU and not only for the host.
        without = [kernels for kernels, name in objects.items() if b"gfx90a" not in name.read_bytes()]
        print(*without, sep="\n")
        return 1 if without or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
