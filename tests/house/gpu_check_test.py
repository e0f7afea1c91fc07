"""tools/gpu_check with programs that only pretend: what is run in which order, what a budget leaves for the next call, what the
archive holds, and what it makes of AMD's GPUs."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Stands for every program: notes its call, says what FAIL or SKIP tells it to for the calls that they name, and takes NAP seconds.
PROGRAM = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
case "$*" in *bench/gpu/*.py*) for word; do last=$word; case $before in --output) echo bench > "$word";; esac; before=$word; done;; esac
case "$*" in *"mpi_real_gpus late"*) echo "rank 0: error after 3 s: waited 3 s: rank 1 never entered it";; esac
[ -n "$SKIP" ] && case "$0 $*" in *$SKIP*) echo "[  SKIPPED ] CudaKernels.All";; esac
[ -n "$FAIL" ] && case "$0 $*" in *$FAIL*) echo "it went wrong"; exit 1;; esac
sleep "${NAP:-0}"
"""
PYTHON = """#!/bin/sh
case "$2" in
*gcnArchName*) echo "gfx90a gfx90a"; exit;;
"import torch"*) echo "${TORCH:-2.11.0+cu130 13.0 None} /none/torch"; exit;;
esac
exec "$PROGRAM" "$@"
"""
NVIDIA_SMI = """#!/bin/sh
[ "$*" = "--query-gpu=name,compute_cap,memory.total,driver_version --format=csv,noheader" ] && echo "NVIDIA H100, 9.0, 81559 MiB, 580.1"
"""
# Prints two dies of an MI250X as rocm-smi of ROCm 6 does. It fails, since a later query did.
ROCM_SMI = """#!/bin/sh
[ "$*" = "--showproductname --showmeminfo vram --showdriverversion --json" ] || exit 2
echo "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status"
echo
cat << 'END'
{"card0": {"VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "10985472", "Card Series": \
"AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2", "Card Model": "0x7408", "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]", \
"Card SKU": "D65201", "Subsystem ID": "0x0b0c", "Device Rev": "0x00", "Node ID": "4", "GUID": "58294", "GFX Version": "gfx9010"}, \
"card1": {"VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "10985472", "Card Series": \
"AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2", "Card Model": "0x7408", "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]", \
"Card SKU": "D65201", "Subsystem ID": "0x0b0c", "Device Rev": "0x00", "Node ID": "5", "GUID": "7138", "GFX Version": "gfx9010"}, \
"system": {"Driver version": "6.10.5"}}
END
exit 1
""".replace("\\\n", "")
# One agent is the processor; of the dies some lines are left out.
ROCMINFO = """#!/bin/sh
cat << 'END'
ROCk module is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.1

==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 7A53 64-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 7A53 64-Core Processor
  Vendor Name:             CPU
  Device Type:             CPU
DIES
*** Done ***
END
"""
DIE = """*******
Agent NUMBER
*******
  Name:                    gfx90a
  Uuid:                    GPU-a98e0d77ca91cb4a
  Marketing Name:          AMD Instinct MI250X
  Vendor Name:             AMD
  Device Type:             GPU
  Cache Info:
    L1:                      16(0x10) KB
  Chip ID:                 29704(0x7408)
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    67092480(0x3ffc000) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
"""
# rocminfo fills lines with spaces.
DIES = "\n".join(line.ljust(60) for number in "23" for line in DIE.replace("NUMBER", number).splitlines())
HIP_TORCH = "2.11.0+rocm7.1 None 7.1.25424"
PROGRAMS = ["terrace", "test_ops", "test_optim", "tests/comm/mpi/mpi_ranks", "tests/comm/mpi/mpi_real_gpus", "bench/bench_step_trainer"]


class Pretended(unittest.TestCase):
    """A folder with programs that pretend."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write(self.folder / "python", PYTHON)
        self.write(self.folder / "program", PROGRAM)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def make_bundle(self, *programs):
        bundle = self.folder / "bundle"
        for name in [*(f"programs/{name}" for name in programs), "usr/bin/orterun"]:
            self.write(bundle / name, PROGRAM)
        (bundle / "hashes.txt").write_text("")
        return bundle

    def call(self, bundle, options, **variables):
        """Runs the tool; its exit code, its output and the calls that its programs noted."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        environment = {**os.environ, "CALLS": str(calls), "LD_LIBRARY_PATH": "/driver", "PROGRAM": str(self.folder / "program"), **variables}
        command = [sys.executable, ROOT / "tools/gpu_check", "--bundle", bundle, "--results", self.folder / "results",
                   "--python", self.folder / "python", *options]  # fmt: skip
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=120)
        return result.returncode, result.stdout + result.stderr, calls.read_text().splitlines() if calls.exists() else []

    def outcomes(self):
        summary = json.loads((self.folder / "results/summary.json").read_text())
        return {part["part"]: part["outcome"] for part in summary["parts"]}


class Check(Pretended):
    def setUp(self):
        super().setUp()
        self.archive(self.make_bundle(*PROGRAMS), "gz")
        self.write(self.folder / "bin/nvidia-smi", NVIDIA_SMI)

    def archive(self, bundle, packing):
        with tarfile.open(self.folder / f"programs.tar.{packing}", f"w:{packing}") as archive:
            archive.add(bundle, ".")

    def check(self, *options, packing="gz", **variables):
        families = () if "--data" in options else ("--data", self.families())
        return self.call(self.folder / f"programs.tar.{packing}", [*families, *options],
                         PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", **variables)  # fmt: skip

    def families(self):
        folder = self.folder / "families"
        self.write(folder / "molecules.json", "{}")
        return folder

    def test_what_tells_most_comes_first_and_no_compiler_is_needed(self):
        code, text, calls = self.check("--workloads", "124M,1B,3B", "--peers", "compile")
        self.assertEqual(code, 0, text)
        self.assertIn("test_ops --gtest_filter=*Cuda*", calls[0])
        first = {what: next(i for i, call in enumerate(calls) if what in call)
                 for what in ("verify configs/tiny", "verify configs/vit-115m", "verify configs/painn", "--workloads 124M", "--workloads 1B",
                              "calibrate", "layout.tensor=2 --set layout.sequence_parallel", "--workloads 3B", "--workloads vit-115m",
                              "--workloads pna")}  # fmt: skip
        self.assertEqual(sorted(first.values()), list(first.values()), first)
        self.assertIn("--peers compile", calls[first["--workloads 1B"]])
        self.assertFalse([call for call in calls if "painn" in call and "bf16" in call])
        families = calls[first["--workloads vit-115m"]]
        self.assertIn(f"bench/gpu/families.py --workloads vit-115m --build {self.folder}/programs/programs --data {self.folder}/families", families)
        self.assertIn("--peers compile", families)
        self.assertEqual(families.split("--library-path ")[1], calls[first["--workloads 1B"]].split("--library-path ")[1])
        self.assertEqual((self.folder / "results/bench_vit-115m.md").read_text(), "bench\n")
        self.assertIn("NVIDIA H100, 9.0, 81559 MiB, 580.1\n", text)
        self.assertIn(":/driver", text)  # where the driver's libraries are
        self.assertEqual(set(self.outcomes().values()), {"passed"})

    def test_a_later_call_runs_what_failed_and_what_is_left(self):
        code, text, calls = self.check("--parts", "tests,layouts", FAIL="layout.tensor=2*")
        self.assertEqual(code, 1, text)
        self.assertIn("it went wrong", text)
        failed = [name for name, outcome in self.outcomes().items() if outcome != "passed"]
        self.assertIn("layout tiny 2 tensor=2 bf16", failed)
        code, text, again = self.check("--parts", "tests,layouts")
        self.assertEqual(code, 0, text)
        self.assertEqual(len(again), len(failed))
        self.assertEqual(self.check("--parts", "tests,layouts"), (0, unittest.mock.ANY, []))

    def test_a_budget_leaves_parts_for_the_next_call_and_the_archive_is_whole(self):
        archive = self.folder / "results.tar.gz"
        code, text, calls = self.check("--parts", "tests,layouts", "--budget", "23", "--archive", str(archive), NAP="1")
        self.assertEqual(code, 3, text)
        self.assertIn("the budget ended before these", text)
        with tarfile.open(archive) as packed:
            names = packed.getnames()
        self.assertIn("results/summary.json", names)
        self.assertIn("results/tests_of_the_kernels.log", names)
        self.assertLess(len(calls), 8)

    def test_tests_that_skip_for_want_of_a_gpu_fail(self):
        code, text, _ = self.check("--parts", "tests", SKIP="test_ops")
        self.assertEqual(code, 1, text)
        self.assertEqual(self.outcomes()["tests of the kernels"], "FAILED")
        self.assertEqual(self.outcomes()["tests of the optimizer"], "passed")

    def test_families_without_data_are_left_out_with_the_command_that_makes_it(self):
        with unittest.mock.patch.object(sys, "dont_write_bytecode", True):
            loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "tools/gpu_check"))
            gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
            loader.exec_module(gpu_check)
        printed = io.StringIO()
        check = unittest.mock.Mock(arguments=unittest.mock.Mock(data=None, families="vit-115m"))
        with unittest.mock.patch.object(gpu_check, "FAMILIES", self.folder / "none"), contextlib.redirect_stdout(printed):
            gpu_check.Check.run_families(check)
        self.assertIn(f"bench/gpu/families.py --prepare {self.folder}/none --build", printed.getvalue())
        check.run_benchmark.assert_not_called()
        code, text, calls = self.check("--parts", "families", "--data", self.folder / "none")
        self.assertEqual((code, calls), (1, []))
        self.assertIn(f"make it with bench/gpu/families.py --prepare {self.folder}/none --build", text)

    def test_both_packings_are_unpacked_and_a_newer_archive_replaces_what_an_older_one_was_unpacked_to(self):
        self.assertEqual(self.check("--parts", "tests")[0], 0)
        before = (self.folder / "programs/programs/terrace").stat().st_ino
        self.assertEqual(self.check("--parts", "tests")[0], 0)
        self.assertEqual((self.folder / "programs/programs/terrace").stat().st_ino, before)
        self.write(self.folder / "bundle/programs/new", PROGRAM)
        self.archive(self.folder / "bundle", "xz")
        later = (self.folder / "programs.tar.gz").stat().st_mtime + 60
        os.utime(self.folder / "programs.tar.xz", (later, later))
        code, text, _ = self.check("--parts", "tests", packing="xz")
        self.assertEqual(code, 0, text)
        self.assertTrue((self.folder / "programs/programs/new").exists())

    def test_an_archive_that_is_not_whole_is_refused(self):
        self.archive(self.folder / "bundle", "xz")
        archive = self.folder / "programs.tar.xz"
        archive.write_bytes(archive.read_bytes()[:200])
        code, text, _ = self.check("--parts", "tests", packing="xz")
        self.assertEqual(code, 1, text)
        self.assertIn("programs.tar.xz cannot be unpacked", text)
        self.assertNotIn("Traceback", text)


class Amd(Pretended):
    """With AMD's programs in place of NVIDIA's, and no others in PATH."""

    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        for name in ("cmake", "ninja", "c++"):
            self.write(self.bin / name, PROGRAM)
        self.write(self.bin / "rocm-smi", ROCM_SMI)
        self.write(self.bin / "rocminfo", ROCMINFO.replace("DIES", DIES))
        for name in ("sh", "cat", "sleep"):
            (self.bin / name).symlink_to(shutil.which(name))
        self.write(self.folder / "rocm/include/hip/hip_version.h", "")
        self.write(self.folder / "rocm/.info/version", "7.1.1-52")
        self.bundle = self.make_bundle()

    def check(self, *options, **variables):
        options = ["--parts", "build", "--build", self.folder / "build", *options]
        return self.call(self.bundle, options, **{"PATH": str(self.bin), "TORCH": HIP_TORCH, "ROCM_PATH": str(self.folder / "rocm"), **variables})

    def test_the_build_is_the_one_for_hip(self):
        code, text, calls = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("AMD Instinct MI250X, gfx90a, 65520 MiB, 6.10.5\n" * 2, text)
        self.assertIn("torch 2.11.0+rocm7.1 (HIP 7.1.25424), ROCm 7.1.1-52\n", text)
        configure = calls[0].split(" -D")
        self.assertLessEqual({"TERRACE_HIP=ON", "TERRACE_HIP_ARCHITECTURES=gfx90a", f"TERRACE_ROCM_ROOT={self.folder}/rocm",
                              "CMAKE_HIP_FLAGS_RELEASE=-O3", "TERRACE_TORCH_ROOT=/none/torch"}, set(configure))  # fmt: skip
        self.assertNotIn("CUDA", calls[0])
        self.assertIn("--target terrace_program", calls[1])

    def test_a_build_that_reads_no_fields_leaves_out_weather(self):
        self.write(self.folder / "families/molecules.json", "{}")
        code, text, calls = self.check("--parts", "families", "--data", self.folder / "families", "--families", "vit-115m,pna")
        self.assertEqual(code, 0, text)
        self.assertIn("== vit-115m: left out, since the build from this bundle cannot read fields", text)
        self.assertEqual([word for call in calls for word in call.split() if word in ("vit-115m", "pna")], ["pna"])

    def test_torch_names_the_architecture_where_there_is_no_rocminfo(self):
        # This rocminfo hides the one that would otherwise be found in /opt/rocm.
        self.write(self.bin / "rocminfo", "#!/bin/sh\nexit 1\n")
        code, text, calls = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2, , 65520 MiB", text)
        self.assertIn("-DTERRACE_HIP_ARCHITECTURES=gfx90a ", calls[0])

    def test_programs_of_rocm_are_found_outside_of_path(self):
        (self.folder / "rocm/bin").mkdir()
        for name in ("rocm-smi", "rocminfo"):
            (self.bin / name).rename(self.folder / "rocm/bin" / name)
        code, text, _ = self.check()
        self.assertEqual(code, 0, text)
        self.assertIn("AMD Instinct MI250X, gfx90a", text)

    def test_what_is_missing_is_named_with_the_way_out(self):
        code, text, calls = self.check("--rocm", self.folder / "none", TORCH="2.11.0+cpu None None")
        self.assertEqual((code, calls), (1, []), text)
        self.assertIn("is not built for AMD's GPUs (torch.version.hip is None)", text)
        self.assertIn(f"there is no ROCm in {self.folder}/none; load its module", text)
        self.assertNotIn("nvcc", text)

    def test_without_a_gpu_the_architecture_says_whose_build_it_is(self):
        for name in ("rocm-smi", "rocminfo"):
            self.write(self.bin / name, "#!/bin/sh\nexit 1\n")
        code, text, calls = self.check("--architectures", "gfx942")
        self.assertEqual(code, 0, text)
        self.assertIn("no GPU\n", text)
        self.assertIn("-DTERRACE_HIP_ARCHITECTURES=gfx942 ", calls[0])

    def test_the_rate_of_a_gpu_is_found_by_the_name_that_rocminfo_has(self):
        program = "import sys; sys.path.insert(0, 'bench/gpu'); import one_gpu; print(one_gpu.peak_rate(one_gpu.gpu_name()))"
        result = subprocess.run([ROOT / ".deps/python/bin/python", "-B", "-c", program], cwd=ROOT, env={**os.environ, "PATH": str(self.bin)},
                                capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(result.stdout.strip(), "191500000000000.0", result.stderr)


if __name__ == "__main__":
    unittest.main()
