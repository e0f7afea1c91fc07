"""Builds the whole program for AMD's GPUs (the preset `hip`) against the stubs of hip_stubs.py, and runs it on the CPU.

Most objects come from the compiler cache, since only the kernels and the NCCL backend see ROCm. Exits with 77 where Debian's packages
of HIP, clang 15 or the wheel's NCCL are missing. The argument is a folder with a build for the CPU, whose bits are compared.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/house"))
sys.dont_write_bytecode = True
import gpu_kernels_test  # noqa: E402
import hip_stubs  # noqa: E402

CPU_BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else SOURCE / "build/release"
# The folder is as deep in the tree as the build folders of the presets, so that the compiler cache has what they have
# compiled.
BUILD = SOURCE / "build/hip_program"
PROGRAM = BUILD / "terrace"
ROCM, TORCH = BUILD / "rocm", BUILD / "site-packages/torch/lib"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# All that the program takes of RCCL, and so all that its stub has.
OF_RCCL = {"ncclAllGather", "ncclAllReduce", "ncclBroadcast", "ncclCommAbort", "ncclCommDestroy", "ncclCommFinalize",
           "ncclCommGetAsyncError", "ncclCommInitRankConfig", "ncclCommSplit", "ncclGetErrorString", "ncclGetLastError", "ncclGetUniqueId",
           "ncclGroupEnd", "ncclGroupStart", "ncclRecv", "ncclReduceScatter", "ncclSend"}  # fmt: skip


def run(*command, folder=SOURCE, **variables):
    return subprocess.run([str(word) for word in command], cwd=folder, env=ENVIRONMENT | variables, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=1500)  # fmt: skip


def configure(folder, *options):
    return run("cmake", "--preset", "hip", "-B", folder, "-DTERRACE_TESTS=OFF", *options)


def defined_symbols(library):
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).stdout.splitlines()}


def needed_symbols(program):
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--undefined-only", program).stdout.splitlines()}


def code_objects(program):
    """The GPU's code in a program: pairs of the GPU and an ELF file."""
    data = program.read_bytes()
    at = data.find(BUNDLE)
    while at >= 0:
        (count,), entry = struct.unpack_from("<Q", data, at + len(BUNDLE)), at + len(BUNDLE) + 8
        for _ in range(count):
            begin, size, length = struct.unpack_from("<QQQ", data, entry)
            target = data[entry + 24 : entry + 24 + length].decode()
            entry += 24 + length
            if target.startswith("hip"):
                yield target.split("--")[-1], data[at + begin : at + begin + size]
        at = data.find(BUNDLE, at + 1)


def kernels(code):
    """By symbol: a kernel's properties as the compiler noted them."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        notes = run(hip_stubs.LLVM / "bin/llvm-readelf", "--notes", file.name).stdout
    found = {}
    for kernel in notes.split("  - .agpr_count:")[1:]:
        properties = dict(re.findall(r"^    \.(\w+): +(\S+)$", kernel, re.M))
        found[properties["name"]] = properties
    return found


class HipProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        hip_stubs.make_torch_libraries(TORCH, hip_stubs.make_rocm(ROCM))
        options = (f"-DTERRACE_ROCM_ROOT={ROCM}", f"-DTERRACE_TORCH_LIBRARIES={TORCH}")
        for result in (configure(BUILD, *options),
                       run("cmake", "--build", BUILD, "--target", "terrace_program", "--parallel", os.cpu_count())):
            assert result.returncode == 0, result.stdout + result.stderr
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        prepared = run(PROGRAM, "data", "prepare", SOURCE / "docs", "--output", "data/corpus", "--train-tokenizer",
                       "data/tokenizer.model", "--vocabulary", "600", folder=cls.folder)  # fmt: skip
        assert prepared.returncode == 0, prepared.stderr

    def train(self, program, folder, *overrides, start=()):
        settings = ("train.steps=4", "optimizer.warmup_steps=0", f"checkpoint.folder={folder}", *overrides)
        arguments = [word for setting in settings for word in ("--set", setting)]
        return run(*start, program, "train", SOURCE / "configs/tiny.toml", *arguments, folder=self.folder)

    def weights(self, folder):
        return (self.folder / folder / "step_00000004/weights.safetensors").read_bytes()

    def test_says_what_it_is(self):
        said = dict(line.split(": ", 1) for line in run(PROGRAM, "--version").stdout.splitlines()[1:])
        self.assertEqual((said["CUDA"], said["HIP"]), ("none", "5.2 for gfx90a"))

    def test_has_all_kernels_for_wavefronts_of_64(self):
        found = {}
        for target, code in code_objects(PROGRAM):
            self.assertEqual(target, "gfx90a")
            found |= kernels(code)
        names = gpu_kernels_test.names_of(found)
        _, table = gpu_kernels_test.read_table()
        self.assertEqual(sorted(names.values()), sorted(row.split(" ", 1)[1] for row in table))
        for symbol, properties in found.items():
            with self.subTest(names[symbol]):
                self.assertEqual((properties["wavefront_size"], properties["vgpr_spill_count"], properties["sgpr_spill_count"]), ("64", "0", "0"))

    def test_takes_of_stubs_only_the_functions_of_rccl(self):
        needed = needed_symbols(PROGRAM)
        self.assertEqual(needed & defined_symbols(TORCH / "librccl.so"), OF_RCCL)
        self.assertEqual({name for name in needed if name.startswith("nccl")}, OF_RCCL)
        others = defined_symbols(hip_stubs.PACKAGES / "torch/lib/libtorch_cpu.so") | defined_symbols(hip_stubs.PACKAGES / "torch/lib/libc10.so")
        for name in ("libtorch_hip.so", "libc10_hip.so"):
            self.assertEqual(needed & defined_symbols(TORCH / name) - others - {"_init", "_fini"}, set())
        of_hip = {name for name in needed if re.match("_*hip", name)}
        self.assertIn("hipLaunchKernel", of_hip)
        self.assertLessEqual(of_hip, defined_symbols(hip_stubs.HIP_LIBRARY))

    def test_has_no_code_of_torch_that_differs_in_the_build_for_amd(self):
        # The functions of CUDAHooksInterface after getNumGPUs() have other places there, and backward has a guard for products.
        calls = {name for folder in ("terrace", "cli", "bench") for file in (SOURCE / folder).rglob("*.cpp")
                 for name in re.findall(r"getCUDAHooks\(\)\.(\w+)", file.read_text())}  # fmt: skip
        self.assertEqual(calls, {"deviceCount"})
        self.assertNotIn("torch::autograd::Node::operator()", run("nm", "-C", "--defined-only", PROGRAM).stdout)

    def test_loads_one_copy_of_each_library_of_the_wheel(self):
        for path in ("", str(ROCM / "lib")):  # the module's LD_LIBRARY_PATH has ROCm's copy
            loaded = re.findall(r"=> (\S+)", run("ldd", PROGRAM, LD_LIBRARY_PATH=path).stdout)
            for name in ("amdhip64", "rccl", "gomp", "torch_hip", "c10_hip", "torch_cpu"):
                with self.subTest(f"{name}, LD_LIBRARY_PATH={path}"):
                    self.assertEqual([file for file in loaded if f"/lib{name}.so" in file], [str(TORCH / f"lib{name}.so")])
            self.assertNotIn("libtorch_cuda", " ".join(loaded))

    def test_only_kernels_and_the_nccl_backend_see_rocm(self):
        commands = run("ninja", "-C", BUILD, "-t", "commands", "terrace_program").stdout.splitlines()
        seen = {command.split()[-1].removeprefix(f"{SOURCE}/terrace/") for command in commands if " -c " in command and str(ROCM) in command}
        files = [*SOURCE.glob("terrace/**/*.cu"), *SOURCE.glob("terrace/comm/nccl/*.cpp")]
        self.assertEqual(seen, {str(file.relative_to(SOURCE / "terrace")) for file in files})

    def train_with_products(self, products, program, folder, *overrides):
        """Trains until the run takes these products, which it measures at its start: beside other work now these, now those are faster."""
        for _ in range(10):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
            trained = self.train(program, folder, *overrides)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            taken = json.loads((self.folder / folder / "run.json").read_text())["kernels"]["products"]
            if products in (None, taken):
                return taken
        return self.fail(f"of ten runs in {folder} none took the products {products}")

    def test_trains_on_the_cpu_with_the_bits_of_the_build_for_it(self):
        products = self.train_with_products(None, PROGRAM, "auto", 'train.device="auto"')
        self.train_with_products(products, PROGRAM, "cpu", 'train.device="cpu"')
        self.train_with_products(products, CPU_BUILD / "terrace", "cpu_build")
        self.assertEqual(self.weights("auto"), self.weights("cpu"))
        self.assertEqual(self.weights("auto"), self.weights("cpu_build"))

    def test_trains_under_mpirun(self):
        trained = self.train(PROGRAM, "ranks", "layout.sharding=zero3", start=("mpirun", "--oversubscribe", "-n", "2"))
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertTrue((self.folder / "ranks/step_00000004/weights.rank_0001.safetensors").exists())

    def test_says_that_no_gpu_is_visible(self):
        trained = self.train(PROGRAM, "gpu", 'train.device="cuda"')
        self.assertEqual(trained.returncode, 2)
        self.assertIn('train.device = "cuda": no GPU is visible', trained.stderr)

    def test_launches_on_machines_with_amds_gpus(self):
        for machine, lacks in (("frontier", False), ("dgx-h100", True)):
            launched = run(PROGRAM, "launch", SOURCE / "configs/tiny.toml", "--nodes", "1", "--machine", machine, "--account", "A1",
                           "--set", "train.global_batch=16", "--set", "train.precision=bf16", folder=self.folder)  # fmt: skip
            self.assertEqual(launched.returncode, 0, launched.stderr)
            self.assertEqual("this program has no kernels for" in launched.stderr, lacks, launched.stderr)

    def test_a_configuration_that_cannot_be_says_the_way_out(self):
        folder = self.folder / "refused"
        here = (f"-DTERRACE_ROCM_ROOT={ROCM}", f"-DTERRACE_TORCH_LIBRARIES={TORCH}")
        torch_of_7 = self.folder / "torch_of_7"  # without libraries of ROCm, as one that was built on the machine
        (torch_of_7 / "lib").mkdir(parents=True)
        (torch_of_7 / "lib/libtorch_hip.so").touch()
        (torch_of_7 / "version.py").write_text("hip: Optional[str] = '7.1.52802'\n")
        for options, said in (
            (("-DTERRACE_CUDA=ON", *here), "leave one out"),
            (("-DTERRACE_TRAINING=OFF", *here), "leave one of the two out"),
            ((f"-DTERRACE_ROCM_ROOT={folder}/none",), "load ROCm's module"),
            ((f"-DTERRACE_ROCM_ROOT={ROCM}",), "install torch 2.11.0 for ROCm"),  # the wheel here is that for NVIDIA's GPUs
            ((f"-DTERRACE_ROCM_ROOT={ROCM}", f"-DTERRACE_TORCH_ROOT={torch_of_7}"), "load the module of ROCm 7"),
            ((f"-DTERRACE_ROCM_ROOT={ROCM}", f"-DTERRACE_TORCH_LIBRARIES={torch_of_7}/lib"), "librccl.so is neither"),
            ((*here, "-DTERRACE_HIP_ARCHITECTURES=gfx1"), "gfx1"),
        ):
            with self.subTest(said):
                shutil.rmtree(folder, ignore_errors=True)
                result = configure(folder, *options)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(said, " ".join(result.stderr.split()))


if __name__ == "__main__":
    if missing := hip_stubs.missing():
        print("not installed:", *missing)
        sys.exit(77)
    if shutil.which("ccache") is None and not PROGRAM.exists():
        print("without ccache the whole program would be compiled again, for an hour; run this test alone after cmake --build of build/hip_program")
        sys.exit(77)
    unittest.main()
