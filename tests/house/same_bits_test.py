"""tools/same_bits: one bit in a tensor, one figure and one missing checkpoint are found and named."""
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/same_bits"
LOADER = importlib.machinery.SourceFileLoader("same_bits", str(TOOL))
same_bits = importlib.util.module_from_spec(importlib.util.spec_from_loader("same_bits", LOADER))
LOADER.exec_module(same_bits)


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class FirstDifference(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.one, self.other = pathlib.Path(scratch.name) / "one", pathlib.Path(scratch.name) / "other"
        for step in (1, 2):
            folder = self.one / f"step_{step:08}"
            folder.mkdir(parents=True)
            write_tensors(folder / "weights.safetensors", {"a": [1.0, 2.0], "b": [3.0]})
            write_tensors(folder / "optimizer_m.safetensors", {"a": [0.5, 0.0]})
        lines = [{"step": step, "loss": 1.0 / step, "step_seconds": 7.0} for step in (1, 2)]
        (self.one / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        shutil.copytree(self.one, self.other)

    def difference(self):
        return same_bits.first_difference(self.one, self.other)

    def test_equal_runs_have_none_whatever_their_speed(self):
        metrics = self.other / "metrics.jsonl"
        metrics.write_text(metrics.read_text().replace("7.0", "8.0"))
        self.assertEqual(self.difference(), "")

    def test_one_bit_of_a_tensor(self):
        write_tensors(self.other / "step_00000002/weights.safetensors", {"a": [1.0, 2.0 + 2**-22], "b": [3.0]})
        self.assertEqual(self.difference(), "step_00000002: weights a")

    def test_the_sign_of_a_zero(self):
        write_tensors(self.other / "step_00000001/optimizer_m.safetensors", {"a": [0.5, -0.0]})
        self.assertEqual(self.difference(), "step_00000001: optimizer_m a")

    def test_a_tensor_that_only_one_has(self):
        write_tensors(self.other / "step_00000001/weights.safetensors", {"a": [1.0, 2.0]})
        self.assertEqual(self.difference(), "step_00000001: weights b (only one has it)")

    def test_a_loss(self):
        metrics = self.other / "metrics.jsonl"
        metrics.write_text(metrics.read_text().replace("0.5", "0.5000000000000001"))
        self.assertIn("metrics: ", self.difference())

    def test_a_missing_checkpoint(self):
        shutil.rmtree(self.other / "step_00000002")
        self.assertIn("checkpoints: ", self.difference())


class Runs(unittest.TestCase):
    def test_cover_what_the_tool_promises(self):
        settings = [" ".join(run[3]) for run in same_bits.RUNS]
        self.assertGreaterEqual(len(settings), 30)
        words = [f"layout.schedule={name}" for name in ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v")]
        words += [f"layout.sharding={name}" for name in ("ddp", "zero1", "zero2", "zero3", "hybrid", "node", "three_level")]
        words += ["layout.tensor=2", "layout.tensor=3", "sequence_parallel", "recompute=full", "recompute=selective", "bf16", "fp16"]
        for word in words:
            self.assertTrue(any(word in text for text in settings), word)
        self.assertTrue(set(same_bits.RESUMED) <= {run[0] for run in same_bits.RUNS})


if __name__ == "__main__":
    unittest.main()
