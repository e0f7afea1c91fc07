"""The environment's ATEN_CPU_CAPABILITY holds our kernels to narrower vectors, as it does torch's: their tests pass, training has the same
losses, and a checkpoint names the kernels, with which a run that continues elsewhere is compared.

    vector_sets_test.py BUILD_FOLDER

Emulated processors, which are slower by far, are in without_avx_test.py.
"""
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from commands_test import SOURCE, TINY, prepare_corpus, terrace  # noqa: E402

FLAGS = set(re.search(r"^flags\s*:(.*)", pathlib.Path("/proc/cpuinfo").read_text() + "\nflags :", re.MULTILINE)[1].split())
HAS_AVX2 = {"avx2", "fma", "f16c"} <= FLAGS
HAS_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= FLAGS
CLOSE = 2e-4  # of losses, which four steps of fp32 part


class VectorSets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_tests(self, capability, left_out=""):
        environment = os.environ | {"ATEN_CPU_CAPABILITY": capability, "OMP_WAIT_POLICY": "passive"}
        command = [BUILD / "test_ops", "--gtest_brief=1", f"--gtest_filter=-{left_out}"]
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, errors="replace", env=environment)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-1000:])
        self.assertIn("[  PASSED  ]", done.stdout)

    # Without AVX-512 the tests of the room have these kernels already.
    @unittest.skipUnless(HAS_AVX512, "this processor has no AVX-512")
    def test_the_operations_tests_pass_with_the_kernels_of_avx2(self):
        self.check_tests("avx2")

    def test_the_operations_tests_pass_without_kernels(self):
        # In torch's products of fp16 these take minutes; those of the other types go the same ways. The router of
        # transformers does not depend on kernels.
        self.check_tests("default", left_out="Types/JointAttention.*/Half:Types/ExpertsOfType.*/Half:RouterAgainstTransformers.*")

    def trained(self, capability, *more):
        output = self.folder / capability
        result = terrace("train", "tiny.toml", "--set", f"checkpoint.folder={output}", *more, folder=self.folder,
                         ATEN_CPU_CAPABILITY=capability)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stderr)
        steps = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        return [step["loss"] for step in steps if "loss" in step], json.loads((output / "run.json").read_text())["kernels"], result

    @unittest.skipUnless(HAS_AVX2, "this processor has no AVX2")
    def test_training_has_the_same_losses_and_its_checkpoint_names_the_kernels(self):
        prepare_corpus(self.folder)
        (self.folder / "tiny.toml").write_text(TINY)
        found = {capability: self.trained(capability) for capability in ("default", "avx2", *(["avx512"] if HAS_AVX512 else []))}
        losses, kernels, _ = found["default"]
        self.assertEqual(len(losses), 4)
        self.assertEqual((kernels["products"], kernels["attention"]), ("torch", "torch"))
        for own, _, _ in found.values():
            for one, other in zip(own, losses, strict=True):
                self.assertAlmostEqual(one, other, delta=CLOSE * abs(other))
        self.assertEqual(found["avx2"][1]["attention"], "avx2")
        self.assertEqual(found["avx2"][1]["vector_instructions"], "AVX2")
        # A run that continues with other vectors says so.
        (self.folder / "default").rename(self.folder / "other")
        (self.folder / "avx2").rename(self.folder / "default")
        _, _, result = self.trained("default", "--resume", "auto", "--set", "train.steps=6")
        self.assertIn("not bit for bit", result.stdout + result.stderr)
        self.assertIn('vector_instructions "AVX2" -> ', result.stdout + result.stderr)


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("no kernels for this processor")
        sys.exit(77)
    unittest.main()
