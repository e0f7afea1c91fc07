"""Tests the program as a whole: help and version, words that it does not understand, and what its messages are made of."""
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import COMMANDS, SOURCE, TERRACE, CommandTest, terrace  # noqa: E402


class Program(CommandTest):
    def test_help_names_every_command_and_each_command_has_its_own(self):
        general = self.expect(0, terrace("--help")).stdout
        for command in COMMANDS:
            self.assertIn(command, general)
            self.assertIn("Usage: ", self.expect(0, terrace(command, "--help")).stdout)

    def test_help_and_version_are_given_as_words_too(self):
        of = lambda *words: self.expect(0, terrace(*words)).stdout
        self.assertEqual(of("help"), of("--help"))
        self.assertEqual(of("help", "train"), of("train", "--help"))
        self.assertEqual(of("help", "data", "prepare"), of("data", "prepare", "--help"))
        for word in ("version", "-v", "-V"):
            self.assertEqual(of(word), of("--version"))
        self.expect(2, terrace("help", "trian"), "terrace has no subcommand trian; did you mean train?")
        self.expect(2, terrace("train", "-v", "run.toml"), "terrace train has no flag -v; terrace --version prints the version")

    def test_a_dry_run_is_pointed_to_what_does_it(self):
        self.expect(2, terrace("train", "run.toml", "--dry-run"), "terrace train has no flag --dry-run; --check makes every check")
        self.expect(2, terrace("launch", "run.toml", "--dry-run"), "no flag --dry-run; without --submit the job is printed")
        self.expect(2, terrace("search", "space.toml", "--dry-run"), "terrace train --check trains nothing")

    def test_yaml_is_recognised(self):
        folder = self.scratch()
        (folder / "run.yaml").write_text("model:\n  layers: 2\n")
        for command in ("train", "plan", "launch"):
            more = ("--nodes", 1, "--machine", "lumi") if command == "launch" else ()
            result = terrace(command, "run.yaml", *more, folder=folder)
            self.expect(2, result, "error: run.yaml: this is YAML, and TOML is wanted")
        (folder / "machine.toml").write_text("name: ours\n")
        self.expect(2, terrace("plan", SOURCE / "configs/tiny.toml", "--machine", "machine.toml", folder=folder), "machine.toml: this is YAML")

    def test_messages_hold_no_control_characters(self):
        folder = self.scratch()
        name = "a\x1b[31mred\x07"
        for arguments in (("train", name), ("train", "x.toml", "--set", name), ("train", "x.toml", "--" + name), (name,), ("report", name, "--text"),
                          ("status", name), ("data", "inspect", name), ("evaluate", "x", "--ranks", name), ("plan", "x", "--devices", name)):
            result = terrace(*arguments, folder=folder)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotRegex(result.stdout + result.stderr, r"[\x00-\x09\x0b-\x1f\x7f]", arguments)
        self.expect(2, terrace("train", name, folder=folder), r"a\x1b[31mred\x07")
        # A byte that is not UTF-8.
        result = subprocess.run([TERRACE, "train", b"caf\xe9.toml"], cwd=folder, capture_output=True, timeout=60)
        self.assertIn(rb"caf\xe9.toml", result.stderr)

    def test_arguments_that_are_not_understood_exit_with_2(self):
        self.expect(2, terrace(), "subcommand")
        self.expect(2, terrace("trian", "run.toml"), "subcommand")
        self.expect(2, terrace(""), 'terrace has no subcommand "". Its subcommands are train, ')
        self.expect(2, terrace("data"), "subcommand")
        self.expect(2, terrace("report", "run", "--jsno"), "--jsno")
        for command in ("train", "generate", "export", "import", "report"):
            self.expect(2, terrace(command), "required")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], exit=True)
