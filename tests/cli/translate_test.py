"""Tests terrace plan with launches of other trainers, as a shell sees it."""
import json
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, CommandTest, prepare_corpus, terrace  # noqa: E402

SMALL = ("--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 "
         "--global-batch-size 4 --train-iters 2 --lr 1e-3 --lr-decay-style constant --vocab-size 600 --make-vocab-size-divisible-by 8 "
         "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 "
         "--untie-embeddings-and-output-weights ")
DATA = "--data-path corpus --tokenizer-type SentencePieceTokenizer --tokenizer-model tokenizer.model --save run --split 95,5,0 "
TITAN = """[model]
flavor = "debugmodel"
[training]
local_batch_size = 2
seq_len = 64
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "none"
[warp]
drive = 9
"""


class Launches(CommandTest):
    def plan(self, arguments, *options, folder=SOURCE):
        return terrace("plan", "--from-megatron", arguments, *options, folder=folder)

    def test_a_launch_is_planned_with_its_devices_and_its_program(self):
        said = self.expect(0, self.plan(SMALL + "--tensor-model-parallel-size 2 --use-mcore-models")).stdout
        self.assertIn("    --tensor-model-parallel-size 2", said)
        self.assertIn("layout.tensor = 2\n", said)
        self.assertIn("planned as by megatron-core: --use-mcore-models is of Megatron-LM after 2022\n\n2 devices of laptop", said)
        plan = json.loads(self.expect(0, self.plan(SMALL, "--devices", 4, "--software", "terrace", "--json")).stdout)
        self.assertIsNone(plan["translation"]["software"])
        self.assertIn({"argument": "--num-layers 2", "key": "model.layers", "value": "2", "is_default": False, "is_replaced": False},
                      plan["translation"]["settings"])
        # Tables of 600 tokens twice, two blocks of 4 h^2 + 3 h 64 and two norms, and the last norm; h = 32.
        self.assertEqual(plan["parameters"], 2 * 600 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32)

    def test_the_translation_comes_with_best_and_scaling_too(self):
        for options in (["--best", "--devices", 2], ["--scaling", "1,2"]):
            self.assertIn("what Megatron-LM is told", self.expect(0, self.plan(SMALL, *options)).stdout)
            found = json.loads(self.expect(0, self.plan(SMALL, *options, "--json")).stdout)
            self.assertEqual(found["translation"]["program"], "Megatron-LM")

    def test_what_is_written_trains_and_holds_against_one_rank(self):
        folder = self.scratch()
        prepare_corpus(folder)
        layout = "--pipeline-model-parallel-size 2 --use-distributed-optimizer "
        written = self.expect(0, self.plan(SMALL + DATA + layout, "--write", "run.toml", "--set", "train.threads=1", folder=folder))
        self.assertNotIn("for planning only", written.stderr)
        self.assertIn("\nrun.toml\n", written.stdout)
        text = (folder / "run.toml").read_text()
        self.assertIn("# Translated from a launch of Megatron-LM.\n", text)
        self.assertIn("threads = 1\n", text)
        self.expect(0, terrace("train", "run.toml", "--ranks", 2, folder=folder))
        self.assertEqual(len((folder / "run/metrics.jsonl").read_text().splitlines()), 2)
        self.expect(0, terrace("verify", "run.toml", "--ranks", 2, folder=folder))
        self.expect(0, terrace("plan", "run.toml", "--devices", 2, folder=folder))

    def test_a_configuration_without_data_is_for_planning_only(self):
        folder = self.scratch()
        self.expect(0, self.plan(SMALL, "--write", "run.toml", folder=folder), "run.toml is for planning only", "data.train is missing")
        self.expect(0, terrace("plan", "run.toml", folder=folder))

    def test_refusals_name_the_argument_and_the_way_out(self):
        refused = SMALL.replace("rope", "alibi") + "--embed-layernorm"
        result = self.expect(2, self.plan(refused), "--position-embedding-type alibi: positions are learned or rotary",
                             "--set model.positions=..", "--leave-out embed-layernorm")
        self.assertEqual(result.stdout, "")
        ways_out = ("--set", "model.positions=rotary", "--leave-out", "embed-layernorm")
        self.assertIn("left out as asked for\n    --embed-layernorm\n", self.expect(0, self.plan(refused, *ways_out)).stdout)
        self.expect(2, self.plan(SMALL, "--leave-out", "embed-layernorn"), "--leave-out embed-layernorn: the launch has no such argument")
        self.expect(0, self.plan(SMALL + "--embed-layernorm", "--leave-out", "--embed_layernorm"))
        self.expect(2, self.plan(SMALL + "--save $OUT"), "values that only your shell knows: $OUT")
        self.expect(2, self.plan(SMALL + "--save 'a"), "has no partner")
        self.expect(0, self.plan(SMALL + "--warp-drive 9"), "arguments that are not known, and not in the plan:\n  --warp-drive 9")
        self.expect(2, self.plan(SMALL + "--tensor-model-parallel-size 3"), "layout.tensor = 3 does not divide model.heads = 2",
                    "The configuration is the translation of a launch:", "--tensor-model-parallel-size 3")
        self.expect(2, terrace("plan"), "config is required: give a configuration")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--from-megatron", SMALL), "excludes")
        self.expect(2, terrace("plan", "configs/tiny.toml", "--leave-out", "x"), "--leave-out needs a launch")
        self.expect(2, self.plan(SMALL, "--scaling", "1,2", "--write", "x.toml"), "--write requires --best")

    def test_a_file_of_deepspeed_stands_over_a_configuration(self):
        folder = self.scratch()
        (folder / "ds.json").write_text(json.dumps({
            "train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
            "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
        options = ("--from-deepspeed", folder / "ds.json", "--json")
        plan = json.loads(self.expect(0, terrace("plan", "configs/tiny.toml", *options)).stdout)
        self.assertEqual(plan["translation"]["software"], "deepspeed-zero3")
        self.assertIn("4 devices, since 32 / (2 * 4) = 4 data-parallel ranks", plan["translation"]["assumptions"])
        self.expect(2, terrace("plan", "configs/tiny.toml", "--devices", 2, *options), "use 16, or another of the four numbers")
        self.expect(2, terrace("plan", *options), "says nothing of the model")
        both = terrace("plan", "--from-megatron", SMALL.replace("--global-batch-size 4", "") + "--deepspeed", *options)
        self.expect(2, both, "--micro-batch-size 1 and train_micro_batch_size_per_gpu = 2 disagree")

    def test_a_file_of_torchtitan_is_planned(self):
        folder = self.scratch()
        (folder / "titan.toml").write_text(TITAN)
        page = folder / "plan.html"
        planned = self.expect(0, terrace("plan", "--from-torchtitan", folder / "titan.toml", "--devices", 4, "--report", page),
                              "arguments that are not known, and not in the plan:\n  warp.drive = 9")
        self.assertIn("4 devices of laptop: tensor 2, pipeline 1 (1f1b), data 2, sharding zero3, micro-batch 2", planned.stdout)
        self.assertIn(f"terrace plan --from-torchtitan {folder / 'titan.toml'}", page.read_text())


if __name__ == "__main__":
    unittest.main()
