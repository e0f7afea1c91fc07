"""Tests terrace generate, as a shell sees it."""
import json
import os
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import FinishedRun, terrace  # noqa: E402


class Generation(FinishedRun):
    def generate(self, *arguments, prompt="", **environment):
        return terrace("generate", "run", *arguments, folder=self.folder, prompt=prompt, **environment)

    def test_generate_prints_text_or_json(self):
        self.assertTrue(self.expect(0, self.generate("--prompt", "The", "--max-tokens", 3)).stdout.startswith("The"))
        result = self.generate("--prompt-file", "-", "--max-tokens", 3, "--samples", 2, "--json", prompt="The")
        said = json.loads(self.expect(0, result).stdout)
        self.assertEqual((said["step"], said["prompt"], len(said["samples"])), (4, "The", 2))
        self.assertLessEqual(len(said["samples"][0]["tokens"]), 3)

    def test_generate_continues_each_line_of_a_file_as_it_continues_a_prompt(self):
        prompts = ["The", "A step of the trainer", "x = 3"]
        (self.folder / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in prompts))
        drawn = ("--max-tokens", 6, "--samples", 2, "--temperature", 2, "--precision", "bf16")
        alone = [json.loads(self.expect(0, self.generate("--prompt", prompt, "--json", *drawn)).stdout)["samples"] for prompt in prompts]
        shown = "\n".join(f"--- prompt {number} of 3, sample {sample + 1} of 2 ---\n{prompt}{samples[sample]['text']}"
                          for number, (prompt, samples) in enumerate(zip(prompts, alone), 1) for sample in (0, 1))
        for batch in (1, 4, 16):
            with self.subTest(batch=batch):
                said = self.expect(0, self.generate("--prompts", "prompts.txt", "--batch", batch, "--json", *drawn)).stdout
                lines = [json.loads(line) for line in said.splitlines()]
                self.assertEqual([(line["line"], line["prompt"], line["sample"]) for line in lines],
                                 [(number, prompt, sample) for number, prompt in enumerate(prompts, 1) for sample in (1, 2)])
                self.assertEqual([line["tokens"] for line in lines], [sample["tokens"] for samples in alone for sample in samples])
                text = self.expect(0, self.generate("--prompts", "prompts.txt", "--batch", batch, *drawn)).stdout
                self.assertEqual(text, shown + "\n")

    def test_generate_does_not_read_the_mark_of_utf8_as_text(self):
        (self.folder / "marked.txt").write_text("The\nA\n", encoding="utf-8-sig")
        said = self.expect(0, self.generate("--prompts", "marked.txt", "--max-tokens", 1, "--json")).stdout
        self.assertEqual([json.loads(line)["prompt"] for line in said.splitlines()], ["The", "A"])

    def test_generate_ends_at_the_token_that_is_given(self):
        def sample(*flags):
            return json.loads(self.expect(0, self.generate("--prompt", "The", "--temperature", 0, "--max-tokens", 12, "--json", *flags)).stdout)["samples"][0]

        whole = sample("--ignore-eos")
        self.assertEqual((whole["finish"], len(whole["tokens"])), ("max_tokens", 12))
        end = whole["tokens"][5]
        cut = sample("--end-token", end)
        self.assertEqual((cut["finish"], cut["tokens"]), ("end_token", whole["tokens"][:whole["tokens"].index(end)]))
        self.expect(2, self.generate("--prompt", "The", "--end-token", 10**9), "the tokenizer has tokens 0 to ")
        self.expect(2, self.generate("--prompt", "The", "--end-token", "several words of text"), "give the text or the number of one token")
        self.expect(2, self.generate("--prompt", "The", "--end-token", 3, "--ignore-eos"), "excludes")

    def test_generate_keeps_or_splits_the_texts_of_control_tokens(self):
        def tokens_of(prompt, *flags):
            return json.loads(self.expect(0, self.generate("--prompt", prompt, "--max-tokens", 1, "--json", *flags)).stdout)["prompt_tokens"]

        self.assertEqual(tokens_of("The</s>"), tokens_of("The") + 1)
        self.assertEqual(tokens_of("The</s>", "--special-tokens", "keep"), tokens_of("The") + 1)
        self.assertGreater(tokens_of("The</s>", "--special-tokens", "split"), tokens_of("The") + 1)
        self.expect(2, self.generate("--prompt", "The", "--special-tokens", "drop"), "--special-tokens")

    def test_generate_divides_the_model_among_ranks(self):
        one, two = (self.expect(0, self.generate("--prompt", "The", "--max-tokens", 5, "--temperature", 0, *flags)).stdout
                    for flags in ((), ("--ranks", 2)))
        self.assertEqual(one, two)
        self.expect(2, self.generate("--prompt", "The", "--ranks", 3), "3 ranks cannot divide the model", "model.heads = 2; use 1 or 2")

    def test_generate_names_each_line_that_it_cannot_continue(self):
        (self.folder / "holes.txt").write_text("The\n\nA\n\n")
        self.expect(2, self.generate("--prompts", "holes.txt"), "holes.txt, line 2: the line is empty", "holes.txt, line 4: ")
        (self.folder / "long.txt").write_text("The\n" + "word " * 200 + "\n")
        self.expect(2, self.generate("--prompts", "long.txt"), "long.txt, line 2: the prompt has ", "shorten it by")
        (self.folder / "empty.txt").write_text("")
        self.expect(2, self.generate("--prompts", "empty.txt"), "empty.txt is empty")
        self.expect(2, self.generate("--prompts", "absent.txt"), "absent.txt")
        (self.folder / "wide.txt").write_text("The\n", encoding="utf-16")
        self.expect(2, self.generate("--prompts", "wide.txt"), "wide.txt is text in UTF-16; convert it to UTF-8")
        self.expect(2, self.generate("--prompts", "holes.txt", "--prompt", "The"), "excludes")

    def test_generate_refuses_what_does_not_fit_the_memory(self):
        refused = self.expect(3, self.generate("--prompt", "The", "--samples", 100_000_000_000), "--samples 100000000000 takes ")
        self.assertRegex(refused.stderr, r"use --samples \d+ or less")

    def test_generate_takes_the_threads_it_says(self):
        cores = len(os.sched_getaffinity(0))
        for flags, threads in (((), cores), (("--threads", 0), cores), (("--threads", 3), 3)):
            self.expect(0, self.generate("--max-tokens", 1, *flags, OMP_NUM_THREADS="5"), f", {threads} threads")

    def test_generate_names_a_missing_checkpoint(self):
        self.expect(2, terrace("generate", "absent", folder=self.folder), "absent")
        self.expect(2, terrace("generate", ".", folder=self.folder), "neither a checkpoint")

    def test_generate_refuses_numbers_out_of_range_before_it_looks_for_the_checkpoint(self):
        for flag, value in (("--threads", -4), ("--threads", 5000), ("--seed", -1), ("--max-tokens", 0), ("--samples", 0), ("--batch", 0),
                            ("--top-k", -1), ("--temperature", -1), ("--top-p", 0), ("--device", "tpu"), ("--precision", "fp64")):
            with self.subTest(flag=flag, value=value):
                result = self.expect(2, terrace("generate", "absent", flag, value), flag.removeprefix("--"))
                self.assertNotIn("absent", result.stderr)


class BeginToken(FinishedRun):
    """A token before documents and prompts, from the text to an export."""

    def test_a_begin_token_goes_from_the_corpus_to_prompts_and_exports(self):
        def run_here(*arguments):
            return terrace(*arguments, folder=self.folder)

        def counted(name, *options):
            (self.folder / "text.txt").write_text("A step of the trainer.\n\nThe second document of three.\n\nx = 3\n" * 40)
            self.expect(0, run_here("data", "prepare", "text.txt", "--separator", "", "--tokenizer", "tokenizer.model", "--output", name, *options))
            return json.loads(self.expect(0, run_here("data", "inspect", name, "--json")).stdout)

        plain, begun = counted("plain"), counted("begun", "--begin-token", "</s>")
        self.assertEqual(begun["tokens"], plain["tokens"] + plain["documents"])
        self.assertEqual(begun["documents"], plain["documents"])
        self.assertEqual(json.loads((self.folder / "begun.corpus.json").read_text())["begin_token"], 1)
        self.expect(2, run_here("data", "prepare", "text.txt", "--tokenizer", "tokenizer.model", "--output", "none", "--begin-token", "<none>"),
                    "--begin-token")
        train = ("train", "run.toml", "--set", 'data.train=["begun"]', "--set", "checkpoint.folder=begun_run", "--set", "data.validation_share=0.2")
        self.expect(2, run_here(*train), "corpus begun has token 1 before each document, and data.begin_token is not set: set data.begin_token")
        self.expect(0, run_here(*train, "--set", "data.begin_token='</s>'"))
        other = ("train", "run.toml", "--check", "--set", 'data.train=["plain"]', "--set", "checkpoint.folder=x", "--set", "data.begin_token='</s>'",
                 "--set", "data.validation_share=0.2")  # fmt: skip
        self.expect(0, run_here(*other), "corpus plain has no token 1 (data.begin_token) before its documents")

        def prompt_tokens(*options, prompt="The"):
            said = self.expect(0, run_here("generate", "begun_run", "--prompt", prompt, "--max-tokens", 1, "--json", *options))
            return json.loads(said.stdout)["prompt_tokens"]

        self.assertEqual(prompt_tokens(), prompt_tokens("--no-begin-token") + 1)
        self.assertEqual(prompt_tokens(prompt=""), 1)
        self.assertEqual(prompt_tokens("--begin-token", 1), prompt_tokens())
        self.assertEqual(prompt_tokens("--begin-token", 1, prompt="</s>The"), prompt_tokens())
        self.expect(0, run_here("export", "begun_run", "--format", "hf", "--output", "begun_hf"))
        settings = json.loads((self.folder / "begun_hf/tokenizer_config.json").read_text())
        self.assertEqual((settings["add_bos_token"], settings["bos_token"]), (True, "</s>"))
        self.expect(0, run_here("import", "begun_hf", "--output", "begun_back"))
        self.assertIn('begin_token = "</s>"', (self.folder / "begun_back/train.toml").read_text())


if __name__ == "__main__":
    unittest.main()
