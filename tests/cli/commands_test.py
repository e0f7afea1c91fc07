"""Tests each command of the built binary as a shell sees it: exit codes, error messages, and JSON that parses."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TERRACE = pathlib.Path(sys.argv.pop(1)).resolve() / "terrace"
# Makes flock and fsync of a program fail or wait; environment variables say how (tests/house/system_faults.cpp).
SYSTEM_FAULTS = {"LD_PRELOAD": str(TERRACE.parent / "tests/house/libsystem_faults.so")}
COMMANDS = ("train", "evaluate", "data", "generate", "forecast", "score", "predict", "export", "import", "report", "verify", "rehearse", "plan", "simulate",
            "search", "explain", "ensemble", "launch", "status", "keep-node", "calibrate", "doctor", "completion", "man")

TINY = """[model]
layers = 1
width = 16
heads = 2
sequence = 16
vocabulary = 600
[data]
train = ["corpus"]
tokenizer = "tokenizer.model"
[train]
global_batch = 2
steps = 4
evaluate_every = 4
evaluate_batches = 2
threads = 1
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "run"
"""


def terrace(*arguments, folder=SOURCE, prompt="", **environment):
    """Runs the binary to its end. Text that it draws from an untrained model need not be UTF-8."""
    return subprocess.run([TERRACE, *map(str, arguments)], cwd=folder, input=prompt, capture_output=True, text=True,
                          errors="replace", timeout=300, env=os.environ | {"OMP_WAIT_POLICY": "passive"} | environment)


def prepare_corpus(folder):
    """A small corpus of this project's own documents, and the tokenizer trained on it."""
    result = terrace("data", "prepare", SOURCE / "docs", "--output", folder / "corpus", "--train-tokenizer",
                     folder / "tokenizer.model", "--vocabulary", 600, "--threads", 1, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class CommandTest(unittest.TestCase):
    def expect(self, code, result, *said):
        """Checks the exit code, and that standard error holds each text in `said`."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for text in said:
            self.assertIn(text, result.stderr)
        return result

    def scratch(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


class FinishedRun(CommandTest):
    """Has a run of four steps, `trained`, in `folder`."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        prepare_corpus(cls.folder)
        (cls.folder / "run.toml").write_text(TINY)
        cls.trained = terrace("train", "run.toml", folder=cls.folder)


class Planning(CommandTest):
    LAYOUT = ["--set", "layout.tensor=4", "--set", "layout.pipeline=16", "--set", "layout.sharding=zero1"]

    def plan(self, *more, config="configs/frontier-175b.toml", devices=128):
        return terrace("plan", config, "--machine", "frontier", "--devices", devices, *more)

    def test_a_run_that_fits_exits_with_0_and_its_json_has_the_figures_of_the_text(self):
        text = self.expect(0, self.plan(*self.LAYOUT)).stdout
        plan = json.loads(self.expect(0, self.plan(*self.LAYOUT, "--json")).stdout)
        self.assertTrue(plan["feasible"])
        self.assertEqual(len(plan["stages"]), 16)
        self.assertIn(f"MFU {100 * plan['mfu']:.1f}%", text)
        self.assertAlmostEqual(plan["tokens_per_second"], 640 * 2048 / plan["step_seconds"], delta=1)
        for stage in plan["stages"]:
            parts = [value for kind, value in stage["memory_bytes"].items() if kind != "total"]
            self.assertAlmostEqual(sum(parts), stage["memory_bytes"]["total"], delta=1)

    def test_a_run_that_does_not_fit_exits_with_3_and_names_layouts_that_do(self):
        result = self.expect(3, self.plan("--set", "layout.tensor=8", "--set", "layout.pipeline=4"), "stage 0 needs ")
        self.assertIn("the nearest layouts that fit", result.stdout)
        plan = json.loads(self.expect(3, self.plan("--set", "layout.tensor=8", "--set", "layout.pipeline=4", "--json")).stdout)
        self.assertFalse(plan["feasible"])
        self.assertGreater(plan["step_seconds"], 0)
        settings = [word for setting in plan["changes"][0]["set"] for word in ("--set", setting)]
        base = ["--set", "layout.tensor=8", "--set", "layout.pipeline=4"]
        named = {setting.split("=")[0] for setting in plan["changes"][0]["set"]}
        kept = [word for flag, word in zip(base[::2], base[1::2]) if word.split("=")[0] not in named for word in (flag, word)]
        self.expect(0, self.plan(*kept, *settings))

    def test_mistakes_exit_with_2(self):
        self.expect(2, self.plan(*self.LAYOUT, devices=100_000), "more than the 75264 devices of frontier")
        self.expect(2, self.plan(devices=24, *self.LAYOUT), "layout.tensor = 4 and pipeline = 16")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--machine", "frontiers"), "frontier")

    def test_three_tables_are_enough(self):
        folder = self.scratch()
        (folder / "run.toml").write_text("\n".join(TINY.split("\n")[:6]) + "\n[train]\nglobal_batch = 2\nsteps = 4\n")
        self.expect(0, terrace("plan", folder / "run.toml"))
        self.expect(2, terrace("train", folder / "run.toml"), "data.train is missing")

    def test_the_best_layout_is_as_fast_when_it_is_planned_alone(self):
        best = json.loads(self.expect(0, self.plan("--best", 2, "--json", config="configs/frontier-22b.toml", devices=16)).stdout)
        self.assertLessEqual(best["layouts"][0]["step_seconds"], best["layouts"][1]["step_seconds"])
        settings = [word for setting in best["layouts"][0]["set"] for word in ("--set", setting)]
        alone = json.loads(self.expect(0, self.plan(*settings, "--json", config="configs/frontier-22b.toml", devices=16)).stdout)
        self.assertEqual(alone["step_seconds"], best["layouts"][0]["step_seconds"])

    def test_a_trace_of_the_chosen_stages_is_written(self):
        trace = self.scratch() / "step.json"
        self.expect(0, terrace("simulate", "configs/frontier-175b.toml", "--machine", "frontier", "--devices", 128, *self.LAYOUT,
                               "--trace", trace, "--stages", "0,15"))  # fmt: skip
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 120})  # the first ranks of the stages
        names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertLessEqual({"stage 0: computation", "stage 15: computation"}, names)
        self.assertGreater(sum(event["ph"] == "X" for event in events), 1000)


class Search(CommandTest):
    SPACE = "configs/search/175b_frontier.toml"

    def search(self, folder, *more, trials=60):
        return terrace("search", self.SPACE, "--method", "bayesian", "--output", folder, "--trials", trials, *more)

    def test_the_best_configuration_is_as_fast_when_it_is_planned_alone(self):
        folder = self.scratch() / "run"
        found = json.loads(self.expect(0, self.search(folder, "--best", 2, "--json", trials=200)).stdout)
        self.assertEqual(found["trials"], 200)
        self.assertGreater(found["failed"], 0)
        best = found["best"][0]
        self.assertGreaterEqual(best["value"], found["best"][1]["value"])
        alone = terrace("plan", best["config"], "--machine", "frontier", "--software", "terrace-2023", "--devices", best["devices"], "--json")
        self.assertEqual(json.loads(self.expect(0, alone).stdout)["step_seconds"], best["figures"]["step_seconds"])
        self.assertEqual(sorted(path.name for path in folder.glob("best_*")), ["best_1.toml", "best_2.toml"])

    def test_a_search_goes_on_and_another_learns_from_it(self):
        folder = self.scratch()
        self.expect(0, self.search(folder / "a"))
        self.assertIn("60 of them by an earlier search", self.expect(0, self.search(folder / "a", trials=62)).stdout)
        text = self.expect(0, self.search(folder / "b", "--from", folder / "a/results.csv", "--seed", 2)).stdout
        self.assertIn("60 trials: ", text)
        rows = [set((folder / name / "results.csv").read_text().splitlines()[1:]) for name in "ab"]
        points = [{tuple(row.split(",")[:6]) for row in own} for own in rows]
        self.assertEqual(points[0] & points[1], set())

    def test_mistakes_exit_with_2_and_a_search_whose_trials_all_fail_with_3(self):
        folder = self.scratch()
        self.expect(2, terrace("search", folder / "missing.toml"), "missing.toml")
        self.expect(2, self.search(folder / "run", "--time", "soon"), "--time soon")
        text = (SOURCE / self.SPACE).read_text()
        (folder / "space.toml").write_text(text.replace('"8 * nodes"', "7"))
        self.expect(2, terrace("search", folder / "space.toml"), "parameters.nodes has no effect")
        (folder / "space.toml").write_text(text.replace('"8 * nodes"', '"7 * nodes + 0.5"'))
        self.expect(3, terrace("search", folder / "space.toml", "--method", "bayesian", "--trials", 3, "--output", folder / "failed"),
                    "all 3 trials failed", "F_layout: devices = ")  # fmt: skip


class Explain(CommandTest):
    def results(self, *lines):
        path = self.scratch() / "results.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    def test_the_table_the_json_and_the_page_explain_a_search(self):
        folder = self.scratch() / "run"
        self.expect(0, terrace("search", Search.SPACE, "--method", "bayesian", "--output", folder, "--trials", 150))
        text = self.expect(0, terrace("explain", folder)).stdout
        self.assertRegex(text, r"^150 trials in \S+results\.csv: \d+ done, \d+ failed \(")
        for said in ("What flops_per_device depends on (", "1  ", "GFLOP/s", "What makes a trial fail (150 trials of which "):
            self.assertIn(said, text)
        self.assertEqual(text.splitlines()[-1], f"The page is {folder}/explain.html")
        self.assertIn("<html", (folder / "explain.html").read_text())
        (folder / "explain.html").unlink()
        data = json.loads(self.expect(0, terrace("explain", folder / "results.csv", "--json")).stdout)
        self.assertFalse((folder / "explain.html").exists())
        self.assertEqual([one["name"] for one in data["attributions"]], ["flops_per_device", "failure"])
        self.assertAlmostEqual(sum(one["share"] for one in data["attributions"][0]["ranking"]), 1)
        worst = json.loads(self.expect(0, terrace("explain", folder, "--failures", "worst", "--json", "--output", folder / "page.html")).stdout)
        self.assertEqual([one["trials"] for one in worst["attributions"]], [150, 150])
        self.assertIn("<html", (folder / "page.html").read_text())

    def test_a_model_that_does_not_fit_is_named(self):
        rows = [f"{i},{(i * 7919) % 101}" for i in range(40)]
        self.expect(0, terrace("explain", self.results("p:x,objective", *rows)), "the model does not predict objective", "R^2")

    def test_mistakes_exit_with_2(self):
        self.expect(2, terrace("explain", self.scratch() / "missing.csv"), "missing.csv")
        self.expect(2, terrace("explain", self.results("p:x,objective", "1,2", "1")), "results.csv:3: has 1 cells")
        self.expect(2, terrace("explain", self.results("p:x,objective", "1,2")), "1 of 1 trials did not fail", "at least 5")
        self.expect(2, terrace("explain", self.results("p:x,objective", "1,F", "2,F")), "all 2 trials failed")
        self.expect(2, terrace("explain", self.results("x,objective", "1,2")), "has no column of a parameter")
        self.expect(2, terrace("explain", self.results("p:x,objective", "1,2"), "--failures", "best"), "--failures")


class Calibrate(CommandTest):
    def test_a_measured_machine_is_read_back_and_predicted_on(self):
        machine = self.scratch() / "machine.toml"
        result = self.expect(0, terrace("calibrate", "--ranks", 2, "--quick", "--name", "ours", "--output", machine))
        self.assertEqual(result.stdout.strip(), str(machine))
        self.assertIn('name = "ours"', machine.read_text())
        plan = json.loads(self.expect(0, terrace("plan", "configs/tiny.toml", "--machine", machine, "--devices", 2, "--json")).stdout)
        self.assertGreater(plan["step_seconds"], 0)
        self.expect(2, terrace("plan", "configs/tiny.toml", "--machine", machine, "--devices", 4), "more than the 2 devices of ours")

    def test_mistakes_exit_with_2(self):
        self.expect(2, terrace("calibrate", "--ranks", 0), "--ranks")
        self.expect(2, terrace("calibrate", "--device", "tpu"), "tpu")


class Data(CommandTest):
    def test_a_missing_input_is_named(self):
        folder = self.scratch()
        result = terrace("data", "prepare", folder / "absent", "--output", folder / "out", "--train-tokenizer", folder / "m")
        self.expect(2, result, "absent", "does not exist")
        self.expect(2, terrace("data", "inspect", folder / "absent"), "there is no corpus")
        self.assertEqual(list(folder.iterdir()), [])

    def test_numbers_out_of_range_are_refused_before_anything_is_read(self):
        for flag, value in (("--threads", -1), ("--max-malformed", -1), ("--max-line-bytes", -1)):
            self.expect(2, terrace("data", "prepare", "absent", "--output", "out", "--tokenizer", "m", flag, value), flag)
        for flag, value in (("--vocabulary", 0), ("--vocabulary", -5), ("--tokenizer-sample-bytes", 0)):
            self.expect(2, terrace("data", "prepare", "absent", "--output", "out", "--train-tokenizer", "m", flag, value), flag)
        self.expect(2, terrace("data", "inspect", "absent", "--sample", -1), "--sample")

    def test_prepare_and_inspect_print_json_that_agrees(self):
        folder = self.scratch()
        prepared = prepare_corpus(folder)
        inspected = json.loads(self.expect(0, terrace("data", "inspect", folder / "corpus", "--json")).stdout)
        self.assertGreater(prepared["documents"], 1)
        for key in ("documents", "tokens", "token_type"):
            self.assertEqual(inspected[key], prepared[key])

    def test_what_is_text_is_chosen_and_the_output_is_a_prefix(self):
        folder = self.scratch()
        prepare_corpus(folder)
        (folder / "in").mkdir()
        (folder / "in/a.jsonl").write_text('[{"meta": {"body": "first"}},\n{"meta": {"body": "second"}}]')
        (folder / "in/b.txt").write_text("left out")
        (folder / "in/picture").write_bytes(b"\x89PNG\r\n\x1a\n")
        arguments = ("data", "prepare", "in", "--tokenizer", "tokenizer.model", "--output", "out/val.bin", "--field", "meta.body", "--json")
        result = terrace(*arguments, "--exclude", "*.txt", folder=folder)
        self.assertEqual(json.loads(self.expect(0, result, "not text: in/picture (a PNG picture)").stdout)["documents"], 2)
        self.assertEqual(sorted(path.name for path in (folder / "out").iterdir()), ["val.bin", "val.corpus.json", "val.idx"])
        result = terrace(*arguments, "--include", "*.jsonl", "--overwrite", folder=folder)
        self.assertNotIn("picture", self.expect(0, result).stderr)
        self.expect(2, terrace("data", "prepare", "in/picture", *arguments[3:], "--overwrite", folder=folder), "not text: in/picture")
        self.expect(2, terrace("data", "prepare", SOURCE / "docs", "--output", "small", "--train-tokenizer", "m", "--vocabulary", 300,
                               folder=folder), "--vocabulary 300 is too small", " or more")

    def test_control_tokens_in_documents_and_the_end_of_documents_are_chosen(self):
        folder = self.scratch()
        prepare_corpus(folder)
        (folder / "page.jsonl").write_text('{"text": "How models end: </s> is the token.", "score": NaN}\n')
        arguments = ("data", "prepare", "page.jsonl", "--tokenizer", "tokenizer.model", "--output", "page", "--overwrite", "--json")
        split = self.expect(0, terrace(*arguments, folder=folder))
        keep = self.expect(0, terrace(*arguments, "--special-tokens", "keep", folder=folder))
        self.expect(0, terrace(*arguments[:-1], folder=folder), "1 text of a control token was encoded as plain text")
        self.assertGreater(json.loads(split.stdout)["tokens"], json.loads(keep.stdout)["tokens"])
        self.assertEqual([json.loads(run.stdout)["special_texts"] for run in (split, keep)], [1, 1])
        self.expect(0, terrace(*arguments, "--end-token", "7", folder=folder))
        self.assertEqual((folder / "page.bin").read_bytes()[-2:], b"\x07\x00")
        self.expect(2, terrace(*arguments, "--end-token", "600", folder=folder), "--end-token 600: the tokenizer has tokens 0 to 599")
        self.expect(2, terrace(*arguments, "--special-tokens", "drop", folder=folder), "--special-tokens")

    def test_a_named_pipe_is_refused_and_standard_input_is_read(self):
        folder = self.scratch()
        prepare_corpus(folder)
        os.mkfifo(folder / "pipe")
        arguments = ("--tokenizer", folder / "tokenizer.model", "--output", folder / "piped")
        self.expect(2, terrace("data", "prepare", folder / "pipe", *arguments), "pipe is a named pipe", "/dev/stdin")
        self.expect(0, terrace("data", "prepare", "/dev/stdin", *arguments, prompt="The old lighthouse"))
        shown = self.expect(0, terrace("data", "inspect", folder / "piped", *arguments[:2])).stdout
        self.assertIn("The old lighthouse", shown)

    def test_another_tokenizer_than_the_one_that_made_the_corpus_is_refused(self):
        folder = self.scratch()
        prepare_corpus(folder)
        (folder / "run.toml").write_text(TINY)
        self.expect(0, terrace("data", "prepare", SOURCE / "docs", "--output", folder / "other", "--train-tokenizer",
                               folder / "tokenizer.model", "--vocabulary", 599, "--overwrite"))
        inspected = terrace("data", "inspect", "corpus", "--tokenizer", "tokenizer.model", folder=folder)
        self.expect(2, inspected, "corpus corpus was made with tokenizer", "(sentencepiece, 600 tokens)")
        self.expect(2, terrace("train", "run.toml", folder=folder), "corpus corpus was made with tokenizer")
        self.assertFalse((folder / "run").exists())
        mixed = ("--set", 'data.train=["corpus", "other"]', "--set", 'data.tokenizer=""')
        self.expect(2, terrace("train", "run.toml", *mixed, folder=folder), "corpora of different tokenizers in one run")
        twice = ("--set", 'data.validation=["./other"]', "--set", 'data.train=["other"]')
        self.expect(2, terrace("train", "run.toml", *twice, folder=folder), "the same files twice, as other and as ./other")


class Train(CommandTest):
    def configured(self, text):
        folder = self.scratch()
        (folder / "run.toml").write_text(text)
        return folder

    def test_every_problem_of_a_configuration_is_in_one_report(self):
        folder = self.configured(TINY.replace("heads = 2", "heads = 3").replace("steps = 4\n", "step = 4\n", 1))
        result = terrace("train", "run.toml", "--set", "train.precision=fp64", folder=folder)
        self.expect(2, result, "4 problems in run.toml", "run.toml:4:9: model.heads = 3 does not divide model.width = 16",
                    "unknown key train.step; did you mean steps?", "train.steps is missing", "--set train.precision=fp64")
        self.assertEqual([path.name for path in folder.iterdir()], ["run.toml"])

    def test_a_key_without_effect_is_refused_with_its_line(self):
        folder = self.configured(TINY + "[layout]\nprefetch = 2\n")
        line = (folder / "run.toml").read_text().splitlines().index("prefetch = 2") + 1
        self.expect(2, terrace("train", "run.toml", folder=folder),
                    f'run.toml:{line}:12: layout.prefetch = 2 has no effect with sharding = "ddp"')

    def test_files_that_a_configuration_names_must_exist(self):
        self.expect(2, terrace("train", "absent.toml", folder=self.scratch()), "absent.toml")
        self.expect(2, terrace("train", "run.toml", folder=self.configured(TINY)), "tokenizer.model")
        self.expect(2, terrace("train", "run.toml", "--set", 'data.tokenizer=""', folder=self.configured(TINY)), "corpus.bin")


class Verify(CommandTest):
    def verify(self, *arguments):
        return terrace("verify", SOURCE / "configs/tiny.toml", "--ranks", 2, *arguments)

    def test_a_right_layout_exits_with_0_and_reads_no_corpus(self):
        verdict = json.loads(self.expect(0, self.verify("--set", "layout.sharding=zero3", "--json")).stdout)
        self.assertTrue(verdict["holds"])
        self.assertIsNone(verdict["first_divergence"])
        self.assertIn("bitwise   equal", self.expect(0, self.verify()).stdout)

    def test_a_failed_check_exits_with_1(self):
        result = self.expect(1, self.verify("--set", "optimizer.learning_rate=1e30"), "does not train as it should")
        self.assertIn("DOES NOT HOLD", result.stdout)

    def test_ranks_that_do_not_fit_are_refused(self):
        self.expect(2, terrace("verify", SOURCE / "configs/tiny.toml", "--ranks", 3), "use 15 or 18, or 2 ranks")


class Run(FinishedRun):
    """Tests the other commands with it."""

    def test_train_prints_the_path_of_the_last_checkpoint(self):
        self.expect(0, self.trained, "every key of the configuration: run/resolved.toml")
        self.assertEqual(self.trained.stdout, "run/step_00000004\n")
        self.assertTrue((self.folder / "run/step_00000004/COMPLETE").exists())

    def test_training_needs_no_compiler(self):
        nothing = self.folder / "nothing"
        nothing.mkdir()
        for precision in ("fp32", "bf16"):
            result = terrace("train", "run.toml", "--set", f"checkpoint.folder=compiled_{precision}", "--set",
                             f"train.precision={precision}", folder=self.folder, PATH=str(nothing))
            self.expect(0, result)

    def test_profile_prints_a_table_or_is_in_the_json(self):
        result = self.expect(0, terrace("train", "run.toml", "--set", "checkpoint.folder=table", "--profile", 2, folder=self.folder))
        for text in ("steps 3 to 4", "backward", "aten::", "between operations", "table/trace_3_to_4.json"):
            self.assertIn(text, result.stdout)
        # The table has the longest operations alone; which these are depends on the processor.
        self.assertIn("terrace::", (self.folder / "table/trace_3_to_4.json").read_text())
        said = json.loads(self.expect(0, terrace("train", "run.toml", "--set", "checkpoint.folder=json", "--profile", 1, "--json",
                                                 folder=self.folder)).stdout)
        self.assertEqual((said["step"], said["finished"], said["profile"]["first_step"]), (4, True, 3))
        self.assertTrue(json.loads((self.folder / said["profile"]["trace"]).read_text())["traceEvents"])

    def test_keys_without_effect_because_of_a_set_or_the_ranks_are_named_once(self):
        result = terrace("train", "run.toml", "--set", "checkpoint.folder=idle", "--set", "layout.prefetch=2",
                         "--set", "layout.reduce_type=bf16", folder=self.folder)
        self.expect(0, result, '--set layout.prefetch=2: layout.prefetch = 2 has no effect with sharding = "ddp"',
                    'layout.reduce_type = "bf16" has no effect on one data-parallel rank')
        self.assertEqual(result.stderr.count("keys without effect in this run"), 1)
        self.assertNotIn("without effect", self.trained.stderr)
        self.assertIn("micro-batches of 2 sequences", self.trained.stderr)

    def test_a_profile_needs_enough_steps(self):
        self.expect(2, terrace("train", "run.toml", "--set", "checkpoint.folder=none", "--profile", 3, folder=self.folder),
                    "profile at most 2")
        self.assertFalse((self.folder / "none/run.json").exists())

    def test_a_second_run_into_the_same_folder_is_refused(self):
        self.expect(2, terrace("train", "run.toml", folder=self.folder), "--resume auto")

    def test_an_exported_model_is_imported_generates_the_same_text_and_trains(self):
        said = json.loads(self.expect(0, terrace("export", "run", "--format", "hf", "--output", "hf", "--json",
                                                 folder=self.folder)).stdout)
        self.assertEqual((said["architecture"], said["tokenizer"]), ("GPT2LMHeadModel", "tokenizer.model"))
        self.expect(2, terrace("export", "run", "--format", "hf", "--output", "hf", folder=self.folder), "hf exists")
        imported = self.expect(0, terrace("import", "hf", "--output", "back", folder=self.folder)).stdout
        self.assertTrue(imported.startswith(f"{said['parameters']:,} weights from hf in back/step_00000000; "), imported)
        drawn = [self.expect(0, terrace("generate", run, "--prompt", "The", "--max-tokens", 8, folder=self.folder)).stdout
                 for run in ("run", "back")]
        self.assertEqual(drawn[0], drawn[1])
        smaller = ("--set", 'data.train=["corpus"]', "--set", "train.steps=2", "--set", "optimizer.warmup_steps=0")
        self.expect(0, terrace("train", "back/train.toml", *smaller, folder=self.folder), "weights of back")
        self.expect(2, terrace("train", "back/train.toml", *smaller, "--resume", "back", "--set", "checkpoint.folder=other",
                               folder=self.folder), "holds weights alone")
        self.expect(2, terrace("import", "run", "--output", "other", folder=self.folder), "holds no config.json")

    def test_report_draws_or_prints_json(self):
        self.assertIn("held-out loss", self.expect(0, terrace("report", "run", "--text", folder=self.folder)).stdout)
        texts = {locale: terrace("report", "run", "--text", folder=self.folder, LC_ALL=locale).stdout for locale in ("C", "C.UTF-8")}
        self.assertTrue(texts["C"].isascii())
        self.assertRegex(texts["C.UTF-8"], "[\u2801-\u28ff]")
        self.assertEqual([len(line) for line in texts["C"].splitlines()], [len(line) for line in texts["C.UTF-8"].splitlines()])
        self.assertRegex(texts["C"], r"(?m)^  learning rate +\d.* in the last step$")
        summary = json.loads(self.expect(0, terrace("report", "run", "--json", folder=self.folder)).stdout)
        self.assertEqual((summary["steps"], summary["tokens"]), (4, 4 * 2 * 16))
        self.assertGreater(summary["validation_loss"], 0)

    def test_report_lists_the_files_on_request_and_otherwise_shows_their_folder_and_size(self):
        drawn, listed, printed = (self.expect(0, terrace("report", "run", *flags, folder=self.folder)).stdout
                                  for flags in (("--text",), ("--text", "--files"), ("--json",)))
        summary = json.loads(printed)
        self.assertEqual(summary["folder"], "run")
        self.assertGreater(len(summary["files"]), 2)
        self.assertEqual(summary["folder_bytes"], sum(file["bytes"] for file in summary["files"]))
        self.assertRegex(drawn, rf"\n  folder +run, \d+\.\d [KM]iB in {len(summary['files'])} files\n$")
        self.assertTrue(listed.startswith(drawn))
        self.assertEqual([line.split()[-1] for line in listed.removeprefix(drawn).splitlines()],
                         ["files"] + [file["path"] for file in summary["files"]])

    def test_report_writes_a_page_and_prints_its_path(self):
        result = self.expect(0, terrace("report", "run", "--output", "page.html", folder=self.folder))
        self.assertEqual(result.stdout, "page.html\n")
        page = (self.folder / "page.html").read_text()
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*)</script>', page)[1])
        self.assertEqual((data["title"], [run["name"] for run in data["runs"]]), ("run", ["run"]))
        self.assertEqual(data["runs"][0]["figures"]["tokens"], 4 * 2 * 16)
        self.assertEqual([step for step, _ in data["runs"][0]["losses"]["training"]], [1, 2, 3, 4])

    def test_report_refuses_flags_that_do_not_go_together(self):
        for flags in (("--files",), ("--text", "--json"), ("--text", "--output", "page.html"), ("--json", "--output", "page.html")):
            with self.subTest(flags=flags):
                self.expect(2, terrace("report", "run", *flags, folder=self.folder), flags[0])

    def test_report_says_where_there_is_no_run(self):
        self.expect(2, terrace("report", "run", "absent", folder=self.folder), "absent holds no run")
        self.expect(2, terrace("report", "absent", folder=self.folder), "absent holds no run")
        self.expect(2, terrace("report", ".", "--json", folder=self.folder), "run.json")


if __name__ == "__main__":
    unittest.main()
