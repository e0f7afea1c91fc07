"""Makes what the build for AMD's GPUs needs and Debian lacks: a folder of ROCm, and torch's libraries for ROCm in the wheel's layout.

Of ROCm all is Debian's but RCCL's header, which is made from NCCL's. Of torch, libtorch_cpu, libc10 and OpenMP's library are those
of the wheel for NVIDIA's GPUs, and libamdhip64 is Debian's; libtorch_hip and RCCL are made of tests/hip_stubs, and libc10_hip is
empty.
"""
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/house"))
sys.dont_write_bytecode = True
from hip_test import NCCL, write_rccl_header  # noqa: E402

PACKAGES = SOURCE / ".deps/python/lib/python3.11/site-packages"
DEBIAN = pathlib.Path("/usr/lib/x86_64-linux-gnu")
LLVM = pathlib.Path("/usr/lib/llvm-15")
HIP_LIBRARY = DEBIAN / "libamdhip64.so.5"
# The place of each part of a folder of ROCm on Debian.
OF_ROCM = {"llvm": LLVM, "include/hip": "/usr/include/hip", "include/hsa": "/usr/include/hsa", "amdgcn/bitcode": DEBIAN / "amdgcn/bitcode",
           "lib/libamdhip64.so": HIP_LIBRARY, "lib/libamdhip64.so.5": HIP_LIBRARY, "lib/cmake/AMDDeviceLibs": "/usr/lib/cmake/AMDDeviceLibs"}  # fmt: skip
OF_ROCM |= {f"lib/cmake/{name}": DEBIAN / "cmake" / name for name in ("hip", "hip-lang", "amd_comgr", "hsa-runtime64")}


def missing():
    """What the machine lacks, or nothing."""
    needed = [NCCL, HIP_LIBRARY, LLVM / "bin/clang++", *map(pathlib.Path, OF_ROCM.values())]
    return [str(path) for path in needed if not path.exists()]


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def shared_library(path, name, *arguments):
    """A library that calls itself `name`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["c++", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{name}", "-o", path, *arguments]
    subprocess.run([str(word) for word in command], check=True)


def make_rocm(folder):
    for part, target in OF_ROCM.items():
        link(folder / part, target)
    write_rccl_header(folder / "include")
    version = folder / "bin/.hipVersion"
    version.parent.mkdir(exist_ok=True)
    version.write_text("HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=2\nHIP_VERSION_PATCH=0\n")
    return folder


def make_torch_libraries(folder, rocm):
    """As in the wheel, libraries lie under names without versions, by which torch needs them, and call themselves by others."""
    link(folder.parents[1] / "nvidia", PACKAGES / "nvidia")  # beside libtorch_cpu of that wheel
    for name in ("libtorch_cpu.so", "libc10.so"):
        link(folder / name, PACKAGES / "torch/lib" / name)
    shutil.copyfile(PACKAGES / "torch/lib/libgomp.so.1", folder / "libgomp.so")
    shutil.copyfile(HIP_LIBRARY, folder / "libamdhip64.so")
    headers = [f"-I{rocm}/include", "-D__HIP_PLATFORM_AMD__"]
    shared_library(folder / "librccl.so", "librccl.so.1", SOURCE / "tests/hip_stubs/rccl.cpp", *headers)
    shared_library(folder / "libc10_hip.so", "libc10_hip.so", "-x", "c++", "/dev/null")
    unversioned = folder / "names/libamdhip64.so"
    shared_library(unversioned, "libamdhip64.so", "-x", "c++", "/dev/null")
    shared_library(folder / "libtorch_hip.so", "libtorch_hip.so", SOURCE / "tests/hip_stubs/torch_hip.cpp", *headers, "-std=c++20",
                   "-idirafter", PACKAGES / "torch/include", folder / "libtorch_cpu.so", folder / "libc10.so", "-Wl,--no-as-needed", unversioned,
                   "-Wl,--disable-new-dtags,-rpath,$ORIGIN,--allow-shlib-undefined")  # fmt: skip
    return folder
