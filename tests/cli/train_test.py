"""Tests what terrace train says before it trains, while it trains and at its end, and terrace evaluate, as a shell sees them."""
import json
import math
import shutil
import struct
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, FinishedRun, terrace  # noqa: E402


class Training(FinishedRun):
    def test_the_log_shows_what_was_seen_and_the_configuration_is_in_the_folder(self):
        said = self.expect(0, self.trained, "1 thread,", "step 4/4: ", " 128 tokens (0.").stderr
        self.assertNotIn("heads = 2", said)
        self.assertNotIn(" left\n", said.split("step 4/4")[1])
        self.assertIn("heads = 2", (self.folder / "run/resolved.toml").read_text())
        printed = self.expect(0, terrace("train", "run.toml", "--print-config", folder=self.folder)).stdout
        self.assertEqual(printed, (self.folder / "run/resolved.toml").read_text())
        self.assertIn("memory of 2 ranks together", self.expect(0, terrace(
            "train", "run.toml", "--ranks", 2, "--set", "checkpoint.folder=two", folder=self.folder), "for the largest rank").stderr)

    def test_a_finished_run_has_nothing_to_do(self):
        self.expect(0, terrace("train", "run.toml", "--resume", "auto", folder=self.folder),
                    "the run had made all its steps up to 4: there is nothing to do; raise train.steps")

    def test_json_has_the_figures_and_paths_or_the_errors(self):
        said = json.loads(self.expect(0, terrace("train", "run.toml", "--resume", "auto", "--json", folder=self.folder)).stdout)
        self.assertEqual((said["checkpoint"], said["folder"], said["metrics"], said["finished"], said["steps"]),
                         ("run/step_00000004", "run", "run/metrics.jsonl", True, 4))
        for key in ("loss", "validation_loss", "tokens_per_second", "memory_bytes"):
            self.assertGreater(said[key], 0)
        result = terrace("train", "run.toml", "--set", "train.steps=0", "--set", "model.heads=3", "--json", folder=self.folder)
        said = json.loads(self.expect(2, result, "2 problems in run.toml").stdout)
        self.assertEqual(said["exit_code"], 2)
        self.assertEqual([error.split(": ")[0] for error in said["errors"]], ["--set train.steps=0", "--set model.heads=3"])
        said = json.loads(self.expect(2, terrace("train", "run.toml", "--json", folder=self.folder)).stdout)
        self.assertEqual(len(said["errors"]), 1)

    def test_check_finds_what_a_start_needs_and_writes_nothing(self):
        files = sorted(self.folder.rglob("*"))
        check = lambda *more: terrace("train", "run.toml", "--check", *more, folder=self.folder)
        new = ("--set", "checkpoint.folder=new/run")
        said = self.expect(0, check(*new, "--ranks", 2)).stdout
        for line in ("ranks +2 ", "memory of the largest rank +[0-9]", "memory of 2 ranks together +[0-9]", "starts +at step 1 of 4$",
                     "ready to train$"):
            self.assertRegex(said, f"(?m)^{line}")
        said = json.loads(self.expect(0, check("--resume", "auto", "--json")).stdout)
        self.assertEqual((said["ready"], said["errors"], said["checkpoint"], said["steps_done"]), (True, [], "run/step_00000004", 4))
        self.assertEqual(said["memory_bytes_largest_rank"]["total"], said["memory_bytes_together"]["total"])
        result = check("--set", "data.tokenizer=no.model", "--set", 'data.train=["absent"]', "--set", "train.global_batch=3", "--ranks", 2)
        self.assertNotRegex(result.stdout, "starts|ready")
        self.expect(2, result, "problems:", "absent.bin does not exist", 'data.tokenizer = "no.model" does not exist',
                    "run already", "global_batch = 3")
        # Together with the problems of the configuration itself, unless these leave open which files are meant.
        result = check("--set", "data.tokenizer=no.model", "--set", "train.batch=3", *new)
        self.expect(2, result, "2 problems in run.toml", "did you mean global_batch", 'data.tokenizer = "no.model" does not exist')
        self.expect(2, check("--set", "data.tokenizer=no.model", "--set", "model.vocabulary=no", *new), "model.vocabulary = \"no\"")
        # Every weight of the model takes 16 bytes, more than a machine has.
        large = ("--set", "model.width=1000000", "--set", "model.layers=100")
        said = json.loads(self.expect(3, check(*new, *large, "--json"), "1 problem:").stdout)
        self.assertEqual((said["ready"], said["exit_code"], len(said["errors"])), (False, 3, 1))
        self.expect(2, check(*new, *large, "--set", "data.tokenizer=no.model"), "2 problems:")
        self.assertEqual(sorted(self.folder.rglob("*")), files)

    def test_a_changed_corpus_is_named_when_a_run_continues(self):
        (self.folder / "grown").mkdir()
        for name in ("corpus.bin", "corpus.idx", "corpus.corpus.json", "tokenizer.model", "run.toml"):
            shutil.copy(self.folder / name, self.folder / "grown" / name)
        shutil.copytree(self.folder / "run", self.folder / "grown/run")
        self.expect(0, terrace("data", "prepare", SOURCE / "README.md", "--tokenizer", "tokenizer.model", "--output", "corpus",
                               "--overwrite", folder=self.folder / "grown"))
        again = ("train", "run.toml", "--resume", "auto")
        result = self.expect(2, terrace(*again, folder=self.folder / "grown"), "the data are not those", "corpus corpus had ", " tokens and has ")
        self.assertNotIn("{", result.stderr)
        self.expect(2, terrace(*again, "--check", folder=self.folder / "grown"), "corpus corpus had ")

    def test_a_finished_run_goes_on_with_another_batch_and_other_data(self):
        shutil.copytree(self.folder / "run", self.folder / "phased")
        longer = lambda phases, *more: terrace(
            "train", "run.toml", "--resume", "auto", "--set", "train.steps=8", "--set", "checkpoint.folder=phased", "--set", "train.micro_batch=2",
            "--set", f"data.phases=[{phases}]", *more, folder=self.folder)  # fmt: skip
        self.expect(2, longer("{from_step = 4, global_batch = 4}"), "data.phases[1] (from_step = 4) is not in the checkpoint",
                    "a from_step of 5 or more")
        self.expect(2, longer("{from_step = 5, train = ['absent']}", "--check"), 'data.phases[1].train = "absent"')
        result = self.expect(0, longer("{from_step = 6, global_batch = 4}"), "data.phases[1] (from_step = 6) begins: global_batch = 4\n")
        self.assertIn("[[data.phases]]\nfrom_step = 6\n", (self.folder / "phased/resolved.toml").read_text())
        lines = map(json.loads, (self.folder / "phased/metrics.jsonl").read_text().splitlines())
        steps = [(line["step"], line["tokens"], line.get("phase")) for line in lines if "loss" in line]
        self.assertEqual(steps, [(1, 32, None), (2, 64, None), (3, 96, None), (4, 128, None), (5, 160, 0), (6, 224, 1), (7, 288, 1), (8, 352, 1)])
        printed = self.expect(0, terrace("train", "phased/resolved.toml", "--print-config", folder=self.folder)).stdout
        self.assertEqual(printed, (self.folder / "phased/resolved.toml").read_text())
        self.expect(2, longer("{from_step = 6, global_batch = 6}"), "global_batch = 4 in the checkpoint, but 6 now", "a from_step of 9 or more")

    def test_evaluate_prints_a_table_or_json_with_the_loss_of_training(self):
        table = self.expect(0, terrace("evaluate", "run", folder=self.folder)).stdout
        self.assertRegex(table, r"^dataset +loss +perplexity +tokens\ncorpus +\d")
        said = json.loads(self.expect(0, terrace("evaluate", "run", "--data", "corpus", "--threads", 1, "--whole-samples", "--json",
                                                 folder=self.folder)).stdout)
        self.assertEqual((said["checkpoint"], said["step"], [row["dataset"] for row in said["datasets"]]),
                         ("run/step_00000004", 4, ["corpus"]))
        self.assertAlmostEqual(said["perplexity"], math.exp(said["loss"]))
        self.assertEqual(said["tokens"] % 16, 0)
        whole = ("--set", 'data.train=["other"]', "--set", 'data.validation=["corpus"]', "--set", "checkpoint.folder=whole")
        self.expect(0, terrace("data", "prepare", SOURCE / "README.md", "--tokenizer", "tokenizer.model", "--output", "other",
                               folder=self.folder))
        self.expect(0, terrace("train", "run.toml", *whole, "--set", "train.evaluate_batches=0", folder=self.folder))
        lines = map(json.loads, (self.folder / "whole/metrics.jsonl").read_text().splitlines())
        trained = [line["validation_loss"] for line in lines if "validation_loss" in line]
        again = json.loads(self.expect(0, terrace("evaluate", "whole", "--data", "corpus", "--threads", 1, "--whole-samples", "--json",
                                                  folder=self.folder)).stdout)
        self.assertEqual(again["loss"], trained[-1])

    def test_evaluate_counts_every_token_and_gives_bits_per_byte(self):
        (self.folder / "short.txt").write_text("A short text about ranks, twice as long as a sample of the model, and some more of it.\n" * 3)
        self.expect(0, terrace("data", "prepare", "short.txt", "--tokenizer", "tokenizer.model", "--output", "short", folder=self.folder))
        tokens = json.loads(self.expect(0, terrace("data", "inspect", "short", "--json", folder=self.folder)).stdout)["tokens"]
        self.assertNotEqual((tokens - 1) % 16, 0)

        def evaluated(*options):
            return json.loads(self.expect(0, terrace("evaluate", "run", "--data", "short", "--json", *options, folder=self.folder)).stdout)

        plain, whole, strided = evaluated(), evaluated("--whole-samples"), evaluated("--stride", 4)
        self.assertEqual((plain["tokens"], whole["tokens"], strided["tokens"]), (tokens - 1, (tokens - 1) // 16 * 16, tokens - 1))
        self.assertNotEqual(plain["loss"], strided["loss"])
        # The first token has no prediction; the end token stands for no byte.
        first = len(json.loads(self.expect(0, terrace("data", "inspect", "short", "--tokenizer", "tokenizer.model", "--sample", 1, "--json", folder=self.folder)).stdout)["sample"])
        size = (self.folder / "short.txt").stat().st_size - first
        for one in (plain, strided):
            self.assertEqual(one["bytes"], size)
            self.assertAlmostEqual(one["bits_per_byte"], one["loss"] * one["tokens"] / math.log(2) / size)
        table = self.expect(0, terrace("evaluate", "run", "--data", "short", folder=self.folder)).stdout
        self.assertIn(f"short: {plain['bits_per_byte']:.6f} bits per byte of {size} bytes of text\n", table)
        self.expect(2, terrace("evaluate", "run", "--data", "short", "--stride", 17, folder=self.folder), "--stride 17", "give 1 to 16")

    def test_evaluate_fails_where_the_loss_is_no_number(self):
        self.expect(0, terrace("export", "run", "--format", "hf", "--output", "huge_hf", folder=self.folder))
        path = self.folder / "huge_hf/model.safetensors"
        content = bytearray(path.read_bytes())
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + length])
        name = next(name for name in header if name.endswith(("ln_f.weight", "model.norm.weight")))
        begin, end = (8 + length + place for place in header[name]["data_offsets"])
        content[begin:end] = struct.pack("<f", 3e38) * ((end - begin) // 4)  # finite, and logits overflow
        path.write_bytes(content)
        self.expect(0, terrace("import", "huge_hf", "--output", "huge", folder=self.folder))
        result = self.expect(1, terrace("evaluate", "huge", "--data", "corpus", folder=self.folder), "has a loss that is not finite", "corpus: the loss is nan")
        self.assertRegex(result.stdout, r"corpus +nan")
        said = json.loads(self.expect(1, terrace("evaluate", "huge", "--data", "corpus", "--json", folder=self.folder)).stdout)
        self.assertEqual((said["exit_code"], said["errors"]), (1, ["corpus: the loss is nan"]))

    def test_evaluate_takes_the_tokenizer_of_the_checkpoint_and_says_where_it_looks_for_data(self):
        (self.folder / "tokenizer.model").rename(self.folder / "moved.model")
        self.addCleanup((self.folder / "moved.model").rename, self.folder / "tokenizer.model")
        self.expect(0, terrace("evaluate", "run", folder=self.folder))
        away = self.scratch().resolve()
        self.expect(2, terrace("evaluate", self.folder / "run", folder=away), f"corpus.bin does not exist in {away} (a relative path); ",
                    "evaluate in the folder in which the run was started, or name prepared datasets with --data")

    def test_evaluate_names_what_is_missing(self):
        self.expect(2, terrace("evaluate", "absent", folder=self.folder), "absent")
        self.expect(2, terrace("evaluate", "run", "--data", "absent", folder=self.folder), "--data", "absent.bin does not exist")


if __name__ == "__main__":
    unittest.main()
