"""Tests terrace plan and terrace simulate, as a shell sees them."""
import json
import math
import re
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402


class Machines(CommandTest):
    def example(self):
        """The description that docs/machines.md shows, in a file."""
        machine = self.scratch() / "ours.toml"
        machine.write_text(re.search('```toml\n(name = "our-cluster".*?)```', (SOURCE / "docs/machines.md").read_text(), re.S)[1])
        return machine

    def test_a_type_without_rates_is_refused_by_every_prediction(self):
        machine = self.example()
        said = f"{machine} has no [device.fp32]; add it, or set train.precision to bf16"
        for command in (["plan"], ["plan", "--json"], ["plan", "--best"], ["plan", "--scaling", "1,2"], ["simulate"]):
            result = self.expect(2, terrace(command[0], "configs/tiny.toml", "--machine", machine, *command[1:]), said)
            self.assertEqual(result.stdout, "")
        self.expect(0, terrace("plan", "configs/tiny.toml", "--machine", machine, "--set", "train.precision=bf16"))


class Fp8(CommandTest):
    MODEL = ("configs/llama-8b.toml", "--devices", 64)
    PLANNED = (*MODEL, "--machine", "dgx-h200")
    LINE = "products of blocks in fp8; attention, head, embedding, weights, gradients and calls as in a run in bf16; MFU and HFU are shares of the peak in bf16\n"

    def test_products_in_fp8_are_said_by_every_prediction(self):
        plain = json.loads(self.expect(0, terrace("plan", *self.PLANNED, "--json")).stdout)
        fp8 = json.loads(self.expect(0, terrace("plan", *self.PLANNED, "--products", "fp8", "--json")).stdout)
        self.assertEqual((plain["fp8_products"], fp8["fp8_products"]), (False, True))
        self.assertLess(fp8["step_seconds"], plain["step_seconds"])
        self.assertIn("no run with products in fp8 was compared", fp8["interval"]["outside"])
        best = self.scratch() / "best.toml"
        for command in (["plan"], ["plan", "--best", "--set", "layout.pipeline=1", "--write", best], ["simulate"]):
            result = self.expect(0, terrace(command[0], *self.PLANNED, "--products", "fp8", *command[1:]))
            self.assertIn(self.LINE, result.stdout)
        self.assertIn("# " + self.LINE, best.read_text())
        page = self.scratch() / "plan.html"
        self.expect(0, terrace("plan", *self.PLANNED, "--products", "fp8", "--report", page))
        self.assertIn("--products fp8", page.read_text())

    def test_fp8_is_refused_where_it_means_nothing(self):
        fp8 = ("--products", "fp8")
        self.expect(2, terrace("plan", *self.MODEL, *fp8, "--machine", "frontier"), "machines/frontier.toml has no [device.fp8]", "or name alps,")
        self.expect(2, terrace("plan", *self.PLANNED, *fp8, "--set", "train.precision=fp16"), "it is for transformers in bf16, and train.precision is fp16; set it to bf16, or leave the option out")
        self.expect(2, terrace("plan", "configs/painn.toml", *fp8, "--machine", "dgx-h200"), "it is for transformers in bf16, and train.precision is fp32")
        self.expect(2, terrace("plan", *self.PLANNED, "--products", "fp4"), "fp4 not in {fp8}")


class Scores(CommandTest):
    TABLE = "id,model,layers,hidden,heads,vocab,seq,gpu,gpus,software,tp,pp,mbs,gbs,precision,recompute,sec_per_iter\n"

    def table(self, rows):
        file = self.scratch() / "runs.csv"
        file.write_text(self.TABLE + rows)
        return file

    def test_a_row_is_predicted_as_plan_predicts_its_configuration(self):
        table = self.table("a,1.7B,24,2304,24,51200,2048,A100 80GB,32,Megatron-LM,1,1,16,512,fp16,full,3.5\n")
        output = self.scratch() / "score.csv"
        score = json.loads(self.expect(0, terrace("plan", "--score", table, "--json", "--output", output)).stdout)
        config = self.scratch() / "a.toml"
        config.write_text('[model]\nfamily = "gpt"\nlayers = 24\nwidth = 2304\nheads = 24\nsequence = 2048\nvocabulary = 51200\n'
                          '[train]\nsteps = 1\nglobal_batch = 512\nmicro_batch = 16\nprecision = "fp16"\ngradient_type = "fp16"\nrecompute = "full"\n')  # fmt: skip
        plan = json.loads(self.expect(0, terrace("plan", config, "--machine", "dgx-a100-80gb", "--software", "megatron", "--devices", 32, "--json")).stdout)
        self.assertEqual(score["runs"][0]["predicted_seconds"], plan["step_seconds"])
        self.assertAlmostEqual(score["all"]["mean_error"], plan["step_seconds"] / 3.5 - 1)
        self.assertIn("runs.csv,2,a,1.7B,32,dgx-a100-80gb,megatron,one stage over nodes,", output.read_text())

    def test_rows_and_options_that_cannot_be_used_are_named(self):
        table = self.table("b,1.7B,24,2304,24,51200,2048,TPU,32,Megatron-LM,1,1,16,512,fp16,full,3.5\n")
        self.expect(3, terrace("plan", "--score", table), "no run can be scored")
        self.assertIn('runs.csv:2 b: no machine is known as "TPU"; name one by --machine', terrace("plan", "--score", table).stdout)
        self.expect(0, terrace("plan", "--score", table, "--machine", "dgx-h100"))
        self.expect(2, terrace("plan", "--score", table, "--output", "score.txt"), "must end in .json, .csv or .svg")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--score", table), "excludes")
        self.expect(2, terrace("plan", "--score", self.scratch() / "none.csv"), "none.csv")


class Advice(CommandTest):
    def changes(self, *more):
        words = ("plan", "configs/frontier-1t.toml", "--machine", "frontier", "--software", "megatron-deepspeed", "--devices", 16384,
                 "--set", "layout.pipeline=64", "--set", "layout.sharding=zero1", "--set", "train.global_batch=2016", "--json", *more)  # fmt: skip
        return json.loads(self.expect(0, terrace(*words)).stdout)

    def test_tensor_groups_leave_the_node_only_for_a_gain_that_is_beyond_errors(self):
        inside = self.changes("--set", "layout.tensor=8")
        over = self.changes("--set", "layout.tensor=16")
        # Faster by prediction, by less than predictions of tensor groups over nodes err by.
        self.assertLess(over["step_seconds"], inside["step_seconds"])
        self.assertGreater(over["step_seconds"], inside["step_seconds"] / 1.19)
        self.assertNotIn(["layout.tensor=16"], [change["set"] for change in inside["changes"]])
        # Other changes bring more than that.
        self.assertIn(["layout.pipeline=32", "layout.tensor=16"], [change["set"] for change in inside["changes"]])


class Fit(CommandTest):
    def test_a_machine_is_fitted_to_a_table_and_plans_with_its_errors(self):
        folder = self.scratch()
        written = folder / "ours.toml"
        table = SOURCE / "bench/plan/data/torchtitan_h100.csv"
        words = ("plan", "--fit", table, "--machine", "dgx-h100", "--software", "torchtitan", "--write", written, "--json")
        fit = json.loads(self.expect(0, terrace(*words)).stdout)
        self.assertLess(fit["error_after"], fit["error_before"])
        self.assertEqual(len(fit["runs"]), 8)
        self.assertEqual(fit["written"], str(written))
        text = written.read_text()
        self.assertIn('name = "ours"', text)
        for constant in fit["constants"]:
            self.assertIn(f"# {constant['key']}: {constant['before']} before", text)
        self.assertIn("[[errors]]", text)
        kinds = {errors["kind"] for errors in fit["errors"]}
        score = json.loads(self.expect(0, terrace("plan", "--score", table, "--machine", written, "--software", "torchtitan", "--json")).stdout)
        for run, scored in zip(fit["runs"], score["runs"]):
            self.assertEqual(run["kind"], scored["kind"])
            self.assertAlmostEqual(run["fitted_seconds"] / scored["predicted_seconds"], 1, delta=1e-9)
        config = folder / "llama.toml"
        config.write_text('[model]\nfamily = "gpt"\nlayers = 32\nwidth = 4096\nheads = 32\nkv_heads = 8\nffn_width = 14336\nsequence = 8192\n'
                          'vocabulary = 128256\nactivation = "swiglu"\nnorm = "rmsnorm"\nbias = false\npositions = "rotary"\ntied_head = false\n'
                          '[train]\nsteps = 1\nglobal_batch = 16\nprecision = "bf16"\nrecompute = "full"\n[layout]\nsharding = "zero3"\n')  # fmt: skip
        plan = json.loads(self.expect(0, terrace("plan", config, "--machine", written, "--software", "torchtitan", "--devices", 8, "--json")).stdout)
        self.assertIn("weights cut", kinds)
        self.assertTrue(plan["interval"]["of_machine"])

    def test_runs_that_cannot_be_fitted_are_named(self):
        table = SOURCE / "bench/plan/data/torchtitan_h100.csv"
        self.expect(2, terrace("plan", "--fit", table, "--write", "ours.json"), "must end in .toml")
        self.expect(2, terrace("plan", "--fit", table, "--score", table), "excludes")
        self.expect(2, terrace("plan", "--fit", SOURCE / "bench/plan/data/lumi_gpt_2023.csv", table), "the runs are of several machines")
        self.expect(2, terrace("plan", "--fit", self.scratch()), "metrics.jsonl")


class BestLayouts(CommandTest):
    def best(self, *more):
        return terrace("plan", "configs/frontier-22b.toml", "--machine", "frontier", "--devices", 16, "--best", *more)

    def settings(self, best, place=0):
        """The settings of one of the layouts, by key."""
        return dict(setting.split("=") for setting in best["layouts"][place]["set"])

    def test_the_choice_is_compared_while_constants_are_moved(self):
        best = json.loads(self.expect(0, self.best(2, "--json")).stdout)
        choice = best["choice"]
        self.assertEqual(best["layouts"][0]["set"], choice["layouts"][choice["chosen"]]["set"])
        self.assertLess(choice["slower"], 1)
        self.assertGreater(choice["faster"], 1)
        leads = 0
        for move in choice["moves"]:
            self.assertIn(move["factor"], (choice["slower"], choice["faster"]))
            steps = [layout["weight"] * seconds for layout, seconds in zip(choice["layouts"], move["step_seconds"])]
            self.assertEqual(steps[move["first"]], min(steps))
            self.assertAlmostEqual(move["regret"], steps[choice["chosen"]] / min(steps) - 1)
            leads += move["regret"] < 0.0005
            for regret, seconds in zip([layout["worst_regret"] for layout in choice["layouts"]], steps):
                self.assertGreaterEqual(regret, seconds / min(steps) - 1)
        self.assertEqual(choice["stays_first"], leads)
        self.assertIn(f"stays first in {leads} of {len(choice['moves'])} moves", self.best(2).stdout)

    def test_keys_that_set_gives_are_kept_and_named(self):
        kept = json.loads(self.expect(0, self.best(3, "--set", "layout.tensor=8", "--json")).stdout)
        self.assertEqual(kept["kept"], ["layout.tensor=8"])
        for place in range(3):
            self.assertNotIn("layout.tensor", self.settings(kept, place))  # as the configuration with the --set has it
        self.assertIn("kept as --set gives them: layout.tensor=8\n", self.best("--set", "layout.tensor=8").stdout)
        # The schedule has no effect in the configuration, which has one stage.
        interleaved = self.expect(0, self.best("--set", "layout.schedule=interleaved"))
        self.assertIn('kept as --set gives them: layout.schedule="interleaved"\n', interleaved.stdout)
        self.assertRegex(interleaved.stdout, r"layout\.chunks=[2-9]")

    def test_limits_hold(self):
        self.assertEqual(self.settings(json.loads(self.best("--json").stdout))["layout.tensor"], "2")
        best = json.loads(self.expect(0, self.best(3, "--limit", "tensor >= 4", "--limit", "data*micro_batch==4", "--json")).stdout)
        self.assertEqual(best["limits"], "tensor >= 4, data*micro_batch==4")
        for place in range(3):
            settings = {"layout.pipeline": 1, "train.micro_batch": 1} | self.settings(best, place)
            tensor = int(settings["layout.tensor"])
            self.assertGreaterEqual(tensor, 4)
            self.assertEqual(16 // tensor // int(settings["layout.pipeline"]) * int(settings["train.micro_batch"]), 4)
        self.expect(3, self.best("--limit", "tensor > 1000"), "no layout of this model with tensor > 1000 divides")

    def test_mistakes_in_limits_are_all_named(self):
        self.expect(2, self.best("--limit", "tensr<=1", "--limit", "tensor=8", "--limit", "sharding < 2"),
                    '--limit "tensr<=1": there is no number tensr; did you mean tensor? Limits compare data,',
                    "--limit \"tensor=8\": at character 7: '=' is no operator; write ==",
                    '--limit "sharding < 2": there is no number sharding.')

    def test_the_fastest_layout_is_written_as_a_configuration_that_runs(self):
        folder = self.scratch()
        prepare_corpus(folder)
        (folder / "run.toml").write_text(TINY)
        best = terrace("plan", "run.toml", "--devices", 2, "--best", "--write", "best.toml", "--json", folder=folder)
        best = json.loads(self.expect(0, best).stdout)
        self.assertEqual(best["written"], "best.toml")
        alone = terrace("plan", "best.toml", "--devices", 2, "--json", folder=folder)
        self.assertEqual(json.loads(self.expect(0, alone).stdout)["step_seconds"], best["layouts"][0]["step_seconds"])
        self.expect(0, terrace("train", "best.toml", "--ranks", 2, folder=folder))
        self.expect(2, terrace("plan", "run.toml", "--best", "--write", "./run.toml", folder=folder), "would replace the configuration")
        self.assertEqual((folder / "run.toml").read_text(), TINY)

    def test_a_configuration_for_planning_only_is_written_with_a_warning(self):
        folder = self.scratch()
        (folder / "run.toml").write_text(TINY[:TINY.index("[data]")] + "[train]\nglobal_batch = 2\nsteps = 4\n")
        written = terrace("plan", "run.toml", "--best", "--write", "best.toml", folder=folder)
        self.expect(0, written, "best.toml is for planning only", "optimizer.learning_rate is missing")
        self.expect(0, terrace("plan", "best.toml", folder=folder))


class Scaling(CommandTest):
    COMMAND = ("plan", "configs/llama-8b.toml", "--machine", "dgx-a100-80gb", "--software", "megatron", "--set", "layout.tensor=4")

    def test_rows_and_efficiencies_have_intervals(self):
        table = json.loads(self.expect(0, terrace(*self.COMMAND, "--scaling", "8,16,64", "--json")).stdout)
        for rows in (table["weak"], table["strong"]):
            for row in rows:
                plan = terrace(*self.COMMAND, "--devices", row["devices"], "--set", f"train.global_batch={row['global_batch']}", "--json")
                self.assertEqual(row["interval"], json.loads(plan.stdout)["interval"])
            base, last = rows[0]["interval"], rows[2]
            interval, efficiency = last["interval"], last["efficiency_interval"]
            self.assertIsNone(rows[0]["efficiency_interval"])
            self.assertFalse(efficiency["shares_errors"], "8 devices are one node")
            self.assertAlmostEqual(efficiency["lowest"] / last["efficiency"], (1 + interval["lowest_error"]) / (1 + base["highest_error"]))
            self.assertAlmostEqual(efficiency["highest"] / last["efficiency"], (1 + interval["highest_error"]) / (1 + base["lowest_error"]))
        said = self.expect(0, terrace(*self.COMMAND, "--scaling", "8,16,64")).stdout
        self.assertIn("layouts on 16 and 64 devices are of another kind (one stage over nodes) than on 8 (one stage in one node)", said)
        self.assertRegex(said, r"\n +64 +.* to .*%  one stage over nodes\n")


class Costs(CommandTest):
    LAYOUT = ("--set", "layout.tensor=4", "--set", "layout.pipeline=16", "--set", "layout.sharding=zero1")

    def plan(self, *more):
        return terrace("plan", "configs/frontier-175b.toml", "--machine", "frontier", "--devices", 1024, *self.LAYOUT, *more)

    def test_a_plan_has_the_cost_of_the_run(self):
        plan = json.loads(self.expect(0, self.plan("--json")).stdout)
        run = plan["run"]
        self.assertEqual((run["steps"], run["tokens"]), (300_000, 300_000 * 640 * 2048))
        parts = run["parts"]
        self.assertAlmostEqual(sum(parts.values()) / run["seconds"], 1)
        self.assertAlmostEqual(parts["steps"] / (300_000 * plan["step_seconds"]), 1)
        self.assertEqual((parts["queue"], parts["repeated"]), (0, run["repeated_seconds"]))
        self.assertAlmostEqual(run["device_hours"] / (1024 * run["seconds"] / 3600), 1)
        self.assertAlmostEqual(run["energy_joules"] / (280 * 1024 * run["seconds"]), 1)
        self.assertAlmostEqual(run["restarts"] / (run["seconds"] / 3600 * 128 / 38000), 1, places=1)
        said = self.plan().stdout
        self.assertIn(f"    300,000 steps of 3.93e+11 tokens: {run['seconds'] / 86400:.1f} days, ", said)
        self.assertLess(said.index("\nthis run\n"), said.index("\nwhat would help most\n"), "the advice comes behind the prediction")
        for part in ("steps", "checkpoints", "evaluations", "repeated work", "finding failures", "starts", "reading checkpoints"):
            self.assertRegex(said, f"(?m)^      {part} +[0-9]")

    def test_jobs_are_counted_by_the_limits_of_the_site(self):
        """128 nodes of Frontier have jobs of 6 hours, each of which starts, reads, and saves before its end."""
        plan = json.loads(self.expect(0, self.plan("--json", "--queue-wait", "12h")).stdout)
        run, saved = plan["run"], plan["checkpoint"]["seconds"]
        self.assertEqual(run["job_limit_seconds"], 6 * 3600)
        signal = max(120, 60 * -(-(2 * (plan["step_seconds"] + saved) + 60) // 60))
        trains = 6 * 3600 - signal - (60 + 0.003 * 1024) - saved
        work = 300_000 * plan["step_seconds"] + run["parts"]["evaluations"] + run["checkpoints"] * run["checkpoint_stall_seconds"] + run["repeated_seconds"]
        between = 38000 * 3600 / 128
        self.assertEqual(run["full_jobs"], math.ceil(work / (between * math.expm1(trains / between))) - 1)
        self.assertAlmostEqual(run["jobs"], 1 + run["full_jobs"] + run["restarts"])
        self.assertAlmostEqual(run["parts"]["queue"], run["jobs"] * 12 * 3600, places=3)
        said = self.plan("--queue-wait", "12h").stdout
        self.assertIn(f"    {run['full_jobs'] + 1:,} jobs that train for ", said)
        self.assertIn(" at most, since jobs of 128 nodes may take 6 h 00 min ([launch]), and ", said)
        self.assertIn("no queue_wait in [start]", self.plan().stdout)
        for wrong in ("soon", "-3h", "3 h"):
            self.expect(2, self.plan(f"--queue-wait={wrong}"), "is no length of time; write for example 6h, 1h30m or 0s")

    def test_checkpoints_that_follow_each_other_too_fast_are_pointed_at(self):
        result = self.expect(0, terrace("plan", "configs/tiny.toml", "--devices", 1, "--set", "checkpoint.every=1"))
        best = re.search(r"warning: a checkpoint every 1 step .* set checkpoint.every to ([0-9,]+) or more", result.stdout)
        self.assertIsNotNone(best, result.stdout)
        slower = self.expect(0, terrace("plan", "configs/tiny.toml", "--devices", 1, "--set", f"checkpoint.every={best[1].replace(',', '')}"))
        self.assertNotIn("warning: a checkpoint", slower.stdout)

    def test_data_that_the_storage_does_not_give_are_warned_of(self):
        """Fields of a quarter of a degree, of 4 MB each, from a slow file system."""
        machine = self.scratch() / "slow.toml"
        text = (SOURCE / "machines/frontier.toml").read_text()
        machine.write_text(text.replace('total_bandwidth = "4.6 TB/s"', 'total_bandwidth = "10 GB/s"'))
        fields = ("--devices", 64, "--set", "model.grid=[721, 1440]", "--set", "model.patch=16", "--set", "layout.sharding=zero3")
        slow = json.loads(terrace("plan", "configs/vit-115m.toml", "--machine", machine, *fields, "--json").stdout)["storage"]
        variables, constants, outputs = 45, 3, 45
        sample = 4 * 721 * 1440 * (variables + constants + outputs)
        self.assertAlmostEqual(slow["step_read_bytes"] / (1024 * sample), 1)
        self.assertAlmostEqual(slow["read_seconds"] / (1024 * sample / 10e9), 1)
        self.assertTrue(slow["exceeds_storage"])
        said = terrace("plan", "configs/vit-115m.toml", "--machine", machine, *fields).stdout
        self.assertIn("[storage] total_bandwidth), and the step takes ", said)
        self.assertIn("data.stage, docs/staging.md", said)
        staged = terrace("plan", "configs/vit-115m.toml", "--machine", machine, *fields, "--set", "data.stage=/mnt/bb").stdout
        self.assertNotIn("warning: the storage", staged)

    def test_tokens_replace_the_steps(self):
        runs = [json.loads(self.expect(0, self.plan("--json", "--tokens", tokens)).stdout)["run"] for tokens in ("15T", "15000b", "1.5e13")]
        self.assertEqual(runs, [runs[0]] * 3)
        self.assertEqual(runs[0]["steps"], -(-15 * 10**12 // (640 * 2048)))
        for wrong in ("15X", "-3", "T", "0", "1e9T", "15 000B", "nan"):
            self.expect(2, self.plan("--tokens", wrong), "must be a number from 1 to 10000T")
        self.expect(2, self.plan("--tokens", "15T", "--best"), "excludes")

    def test_devices_that_are_not_given_are_said(self):
        said = "1 of the 4 devices of laptop, since --devices is not given"
        for command in (["plan"], ["plan", "--json"], ["plan", "--best"], ["simulate"]):
            result = self.expect(0, terrace(command[0], "configs/tiny.toml", *command[1:]), said)
            self.assertNotIn(said, result.stdout)
        for command in (["plan", "--devices", 1], ["plan", "--scaling", "1,2"]):
            self.assertEqual(self.expect(0, terrace(command[0], "configs/tiny.toml", *command[1:])).stderr, "")

    def test_keys_without_effect_are_said(self):
        pipeline = ("--devices", 2, "--set", "layout.pipeline=2", "--set", "layout.schedule=interleaved")
        planned = self.expect(0, terrace("plan", "configs/tiny.toml", *pipeline),
                              'layout.schedule = "interleaved" has no effect with chunks = 1')
        self.assertIn("pipeline 2 (1f1b)", planned.stdout)
        self.assertEqual(self.expect(0, terrace("plan", "configs/tiny.toml", *pipeline, "--set", "layout.chunks=2")).stderr, "")

    def test_few_outer_updates_advise_the_mean_of_the_copies(self):
        copies = ("--devices", 2, "--set", "train.steps=128", "--set", "train.evaluate_every=64", "--set", "layout.outer_every=32")
        self.expect(0, terrace("plan", "configs/tiny.toml", *copies), "makes 4 outer updates in train.steps = 128")
        mean = ("--set", "optimizer.outer_learning_rate=1.0", "--set", "optimizer.outer_momentum=0.0")
        self.assertEqual(self.expect(0, terrace("plan", "configs/tiny.toml", *copies, *mean)).stderr, "")


class Noise(CommandTest):
    LAYOUT = ("--devices", 8, "--set", "train.precision=bf16", "--set", "layout.tensor=2", "--set", "layout.pipeline=2")

    def machine(self, noise):
        """The description that docs/machines.md shows, with or without the noise that it shows."""
        text = (SOURCE / "docs/machines.md").read_text()
        machine = self.scratch() / ("noisy.toml" if noise else "ours.toml")
        stated = re.search(r"```toml\n(\[noise\].*?)```", text, re.S)[1]
        machine.write_text(re.search('```toml\n(name = "our-cluster".*?)```', text, re.S)[1] + ("\n" + stated if noise else ""))
        return machine

    def simulate(self, machine, *more):
        return terrace("simulate", "configs/tiny.toml", "--machine", machine, *self.LAYOUT, *more)

    def test_steps_are_drawn_by_their_seed(self):
        machine = self.machine(noise=True)
        drawn = self.expect(0, self.simulate(machine, "--draws", 30)).stdout
        self.assertRegex(drawn, r"30 steps with the machine's noise: median .*, 90% from .* to .*, mean .* \(\+\d+\.\d%\)\n")
        self.assertIn("    waits within tensor groups", drawn)
        self.assertEqual(self.simulate(machine, "--draws", 30, "--seed", 0).stdout, drawn)
        self.assertNotEqual(self.simulate(machine, "--draws", 30, "--seed", 1, "--json").stdout,
                            self.simulate(machine, "--draws", 30, "--seed", 2, "--json").stdout)
        plain = json.loads(self.simulate(machine, "--json").stdout)
        noisy = json.loads(self.simulate(machine, "--draws", 30, "--seed", 4, "--json").stdout)
        self.assertEqual(plain, {key: value for key, value in noisy.items() if key != "noise"})
        noise = noisy["noise"]
        self.assertEqual((noise["draws"], noise["seed"]), (30, 4))
        self.assertLess(noise["low_seconds"], noise["high_seconds"])
        self.assertAlmostEqual(sum(noise["costs_seconds"].values()), noise["mean_seconds"] - plain["step_seconds"])

    def test_a_plan_says_the_expected_step_where_the_machine_states_noise(self):
        plan = lambda machine, *more: self.expect(0, terrace("plan", "configs/tiny.toml", "--machine", machine, *self.LAYOUT, *more)).stdout
        noisy, plain = self.machine(noise=True), self.machine(noise=False)
        self.assertRegex(plan(noisy), r"\nwith the machine's noise .* \(\+\d+\.\d%\): devices by themselves .*%, tensor groups .*%, "
                                      r"pipeline .*%, replicas .*%\n")
        self.assertNotIn("noise", plan(plain))
        self.assertIsNone(json.loads(plan(plain, "--json"))["noise"])
        found = json.loads(plan(noisy, "--json"))
        drawn = json.loads(self.simulate(noisy, "--draws", 300, "--json").stdout)
        self.assertEqual(found["step_seconds"], drawn["step_seconds"])
        self.assertEqual(found["step_seconds"], json.loads(plan(plain, "--json"))["step_seconds"])
        self.assertAlmostEqual(found["noise"]["expected_step_seconds"] / drawn["noise"]["mean_seconds"], 1, delta=0.02)

    def test_draws_need_a_machine_with_noise(self):
        machine = self.machine(noise=False)
        self.expect(2, self.simulate(machine, "--draws", 30), f"--draws needs the noise of the machine, and {machine} states none; add a table [noise]")
        self.expect(2, self.simulate(machine, "--draws", 0))
        self.expect(2, self.simulate(machine, "--seed", 1), "--seed requires --draws")


class Groups(CommandTest):
    RUN = ("configs/frontier-175b.toml", "--machine", "frontier", "--devices", 512, "--set", "layout.tensor=8", "--set", "layout.pipeline=16", "--set", "layout.sharding=zero1")

    def planned(self, *options):
        return json.loads(self.expect(0, terrace("plan", *self.RUN, "--json", *options)).stdout)

    def test_a_job_over_several_groups_is_said_and_never_faster(self):
        one, four, all_apart = self.planned(), self.planned("--groups", 4), self.planned("--groups", 64)
        self.assertIsNone(one["network_groups"])
        self.assertEqual(four["network_groups"], {"groups": 4, "nodes_of_group": 16, "across": ["pipeline"], "inside": ["data", "tensor"]})
        self.assertEqual(all_apart["network_groups"]["across"], ["pipeline", "data"])
        self.assertLessEqual(one["step_seconds"], four["step_seconds"])
        self.assertLess(four["step_seconds"], all_apart["step_seconds"])
        page = self.scratch() / "plan.html"
        text = self.expect(0, terrace("plan", *self.RUN, "--groups", 4, "--report", page)).stdout
        self.assertIn("\nthe nodes lie in 4 groups of 16: ranks along pipeline exchange data between them, those along data and tensor stay inside one\n", text)
        self.assertIn("--groups 4", page.read_text())
        simulated = json.loads(self.expect(0, terrace("simulate", *self.RUN, "--groups", 64, "--json")).stdout)
        self.assertEqual(simulated["step_seconds"], all_apart["step_seconds"])

    def test_groups_that_cannot_be_are_refused(self):
        self.expect(2, terrace("plan", *self.RUN, "--groups", 65), "--groups 65: 64 nodes of", "which has 74 groups of 128 nodes, lie in 1 to 64 groups")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--machine", "dgx-h100", "--devices", 16, "--groups", 2), 'has no tier "group"', "name aurora, frontier or lumi")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--machine", "frontier", "--scaling", "8,16", "--groups", 2), "--groups")

    def test_communicators_of_a_machine_that_states_their_memory_are_counted(self):
        run = ("configs/llama-8b.toml", "--devices", 16, "--set", "layout.tensor=2", "--set", "layout.sharding=zero3")
        stage = json.loads(self.expect(0, terrace("plan", *run, "--machine", "dgx-a100-80gb", "--json")).stdout)["stages"][0]["communicators"]
        # Weights and gradients by rails, with four ranks in each of two nodes; data, and all ranks twice; tensor ranks, and those that hold one model.
        self.assertEqual(stage, {"groups": 5, "pairs": 4, "directions": 0, "bytes": (5 * 688 + 4 * 544) * 2**20})
        self.assertRegex(self.expect(0, terrace("plan", *run, "--machine", "dgx-a100-80gb")).stdout, r"\n    communicators +5\.5\n")
        self.assertNotIn("communicators", self.expect(0, terrace("plan", *run, "--machine", "dgx-h100")).stdout)


class NoiseScale(CommandTest):
    PLANNED = ("configs/frontier-22b.toml", "--machine", "frontier", "--set", "layout.pipeline=8", "--set", "layout.sharding=zero1")

    def plan(self, *more):
        return terrace("plan", *self.PLANNED, *more)

    def test_a_plan_says_what_its_batch_takes_to_a_loss(self):
        plan = json.loads(self.expect(0, self.plan("--devices", 16, "--noise-scale", 1000, "--json")).stdout)
        batch = plan["noise_scale"]["batch"]
        self.assertEqual(plan["noise_scale"]["steps_over_fewest"], 1 + 1000 / batch)
        self.assertIn("noise scale 1000 sequences\n", self.plan("--devices", 16, "--noise-scale", "1e3").stdout)
        self.assertIsNone(json.loads(self.plan("--devices", 16, "--json").stdout)["noise_scale"])

    def test_weak_scaling_has_the_time_to_the_same_loss(self):
        scaling = ("--scaling", "16,32,64", "--noise-scale", 200)
        table = json.loads(self.expect(0, self.plan(*scaling, "--json")).stdout)
        for row, point in zip(table["same_loss"]["weak"], table["weak"]):
            steps = (1 + 200 / point["global_batch"]) / (1 + 200 / table["weak"][0]["global_batch"])
            self.assertAlmostEqual(row["seconds"], steps * point["step_seconds"] / table["weak"][0]["step_seconds"])
        self.assertIn("first at the loss: ", self.plan(*scaling).stdout)

    def test_best_compares_batches(self):
        options = ("--devices", 16, "--best", "--set", "layout.tensor=2", "--noise-scale", 100, "--batches", "16,64")
        best = json.loads(self.expect(0, self.plan(*options, "--json")).stdout)
        self.assertEqual({one["global_batch"] for one in best["batches"]}, {16, 64})
        times = [one["seconds_of_reference_step"] for one in best["batches"]]
        self.assertEqual(times, sorted(times))
        folder = self.scratch()
        written = terrace("plan", SOURCE / self.PLANNED[0], *self.PLANNED[1:], *options, "--write", "best.toml", folder=folder)
        self.assertIn("by the time to the same loss", self.expect(0, written).stdout)
        self.assertIn(f"global_batch = {best['batches'][0]['global_batch']}\n", (folder / "best.toml").read_text())

    def test_nonsense_is_refused_with_the_way_out(self):
        self.expect(2, self.plan("--noise-scale", "0"), "--noise-scale 0 must be above 0", "give such as 512")
        self.expect(2, self.plan("--noise-scale", "no/run"), "--noise-scale no/run is neither a number of samples nor the folder of a run")
        self.expect(2, self.plan("--best", "--noise-scale", 9), "give them, such as --batches 64,128,256")
        self.expect(2, self.plan("--best", "--batches", "16,32"), "--batches needs --noise-scale")
        self.assertRegex(self.expect(2, self.plan("--batches", "16,32", "--noise-scale", 9)).stderr, "requires --best")


class Answers(CommandTest):
    """What is asked for is answered, in words and in the exit code."""
    PLANNED = ("configs/frontier-22b.toml", "--machine", "frontier")

    def test_options_without_effect_are_refused(self):
        for options in (["--best", "--report", "x.html"], ["--scaling", "8,16", "--report", "x.html"], ["--scaling", "8,16", "--best"],
                        ["--scaling", "8,16", "--devices", 8], ["--limit", "tensor<=8"], ["--write", "x.toml"]):
            result = self.expect(2, terrace("plan", *self.PLANNED, *options))
            self.assertEqual(result.stdout, "")
            self.assertRegex(result.stderr, "excludes|requires --best")
        self.expect(2, terrace("simulate", *self.PLANNED, "--stages", 0), "--stages requires --trace")

    def test_what_does_not_fit_exits_with_3(self):
        no_fit = "stage 0 needs 371.8 GiB of 62.0 GiB"
        simulated = self.expect(3, terrace("simulate", *self.PLANNED), no_fit)
        self.assertIn("bubble", simulated.stdout)
        simulated = json.loads(self.expect(3, terrace("simulate", *self.PLANNED, "--json"), no_fit).stdout)
        self.assertFalse(simulated["feasible"])
        self.assertIn(no_fit, simulated["reason"])
        scaled = self.expect(3, terrace("plan", *self.PLANNED, "--scaling", "1,2"), f"no number of devices fits: with 1 device {no_fit}")
        self.assertIn("does not fit", scaled.stdout)
        # 8 devices are too few, 64 are not.
        sharded = (*self.PLANNED, "--set", "layout.sharding=zero3")
        self.assertIn("does not fit", self.expect(0, terrace("plan", *sharded, "--scaling", "1,64")).stdout)


if __name__ == "__main__":
    unittest.main()
