"""Tests that the build finds the CUDA libraries beside torch's wheels for CUDA 13 and 12, whose folders differ, and refuses a
wheel without them and a toolkit of another CUDA. The wheels are empty files in their layouts."""
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FILES = {
    13: ("cu13/lib/libcudart.so.13", "cu13/lib/libcublasLt.so.13", "cu13/include/cublasLt.h"),
    12: ("cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublasLt.so.12", "cublas/include/cublasLt.h"),
}
SCRIPT = """include({source}/cmake/cuda_of_wheel.cmake)
foreach(name TERRACE_WHEEL_CUDA TERRACE_CUDA_FOLDERS TERRACE_CUDART TERRACE_CUBLASLT TERRACE_CUBLAS_INCLUDE)
  message(STATUS "${{name}}=${{${{name}}}}")
endforeach()
"""


class CudaOfWheel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.site = pathlib.Path(scratch.name).resolve() / "site-packages"
        (self.site / "torch").mkdir(parents=True)

    def place(self, *files):
        for file in files:
            path = self.site / "nvidia" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def found(self, **more):
        script = self.site / "script.cmake"
        script.write_text(SCRIPT.format(source=SOURCE))
        variables = [f"-D{name}={value}" for name, value in {"TERRACE_TORCH_ROOT": self.site / "torch", **more}.items()]
        run = subprocess.run(["cmake", *variables, "-P", script], capture_output=True, text=True)
        lines = dict(line.removeprefix("-- ").split("=", 1) for line in run.stdout.splitlines() if "=" in line)
        return run.returncode, lines, " ".join(run.stderr.split())

    def test_each_release_has_its_folders(self):
        for release, files in FILES.items():
            with self.subTest(release):
                self.setUp()
                self.place(*files, "cudnn/lib/libcudnn.so.9")
                code, lines, said = self.found(CUDAToolkit_VERSION_MAJOR=release, CUDAToolkit_VERSION=f"{release}.6")
                self.assertEqual(code, 0, said)
                self.assertEqual(lines["TERRACE_WHEEL_CUDA"], str(release))
                for name, file in zip(("TERRACE_CUDART", "TERRACE_CUBLASLT"), files):
                    self.assertEqual(lines[name], str(self.site / "nvidia" / file))
                self.assertEqual(lines["TERRACE_CUBLAS_INCLUDE"], str((self.site / "nvidia" / files[2]).parent))
                self.assertEqual(lines["TERRACE_CUDA_FOLDERS"].split(";"), list(dict.fromkeys(file.split("/")[0] for file in files[:2])))

    def test_a_wheel_without_them_and_another_toolkit_are_refused(self):
        code, _, said = self.found()
        self.assertNotEqual(code, 0)
        self.assertIn("the CUDA build needs the NVIDIA libraries of CUDA 13 or 12 in", said)
        self.place(*FILES[12], "cudnn/lib/libcudnn.so.9")
        code, _, said = self.found(CUDAToolkit_VERSION_MAJOR=13, CUDAToolkit_VERSION="13.0.48")
        self.assertNotEqual(code, 0)
        self.assertIn("nvcc is of CUDA 13.0.48, and", said)
        self.assertIn("install the wheel for CUDA 13", said)
        self.place(*FILES[13])  # a folder into which both were installed has the newer one
        self.assertEqual(self.found()[1]["TERRACE_WHEEL_CUDA"], "13")


if __name__ == "__main__":
    unittest.main()
