"""Tests the texts made from the program's flags: completion in bash, zsh and fish, the manual page, examples, suggestions."""
import fcntl
import functools
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
TERRACE = BUILD / "terrace"
LEAVES = ("train", "evaluate", "data prepare", "data inspect", "generate", "forecast", "score", "export", "import", "report", "verify", "rehearse",
          "plan", "simulate", "search", "explain", "ensemble", "predict", "launch", "status", "keep-node", "calibrate", "doctor", "completion", "man")


def terrace(*arguments):
    return subprocess.run([TERRACE, *arguments], capture_output=True, text=True, timeout=60)


@functools.cache
def printed(*arguments):
    result = terrace(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def missing(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Bash(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = printed("completion", "bash")

    def complete(self, *words):
        """The words that bash would offer for the last of `words`."""
        program = f"{self.script}\nCOMP_WORDS=(terrace {' '.join(map(repr, words))}); COMP_CWORD={len(words)}\n" \
                  "_terrace; printf '%s\\n' \"${COMPREPLY[@]}\""
        result = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    def test_subcommands(self):
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(self.complete("data", ""), ["prepare", "inspect"])
        self.assertIn("generate", self.complete(""))

    def test_flags_are_those_of_the_command_reached(self):
        self.assertEqual(self.complete("train", "--res"), ["--resume"])
        self.assertEqual(self.complete("data", "prepare", "--train-"), ["--train-tokenizer"])
        self.assertEqual(self.complete("data", "inspect", "--res"), [])
        # The value of a flag is not taken for a subcommand.
        self.assertEqual(self.complete("generate", "data", "--top"), ["--top-k", "--top-p"])

    def test_values(self):
        self.assertEqual(self.complete("train", "run.toml", "--set", "checkpoint.e"), ["checkpoint.every="])
        self.assertEqual(self.complete("generate", "run", "--device", "c"), ["cpu", "cuda"])
        self.assertEqual(self.complete("completion", "f"), ["fish"])
        # The script offers nothing, so bash offers names of files.
        self.assertEqual(self.complete("train", "--resume", "runs/"), [])
        self.assertEqual(self.complete("train", "conf"), [])


@missing("fish")
class Fish(unittest.TestCase):
    def complete(self, line):
        with tempfile.TemporaryDirectory() as home:
            script = pathlib.Path(home) / "terrace.fish"
            script.write_text(printed("completion", "fish"))
            result = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], timeout=60,
                                    capture_output=True, text=True, env=os.environ | {"HOME": home})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [word.split("\t")[0] for word in result.stdout.splitlines()]

    def test_commands_flags_and_values(self):
        self.assertEqual(self.complete("terrace tr"), ["train"])
        self.assertEqual(sorted(self.complete("terrace data ")), ["inspect", "prepare"])
        self.assertEqual(self.complete("terrace train --res"), ["--resume"])
        self.assertEqual(self.complete("terrace train --set checkpoint.e"), ["checkpoint.every="])
        self.assertEqual(self.complete("terrace generate run --device c"), ["cpu", "cuda"])


@missing("zsh")
class Zsh(unittest.TestCase):
    """Makes a terminal, since zsh completes only on one, and reads back the line after a tab."""

    def complete(self, line):
        with tempfile.TemporaryDirectory() as home:
            home = pathlib.Path(home)
            (home / "_terrace").write_text(printed("completion", "zsh"))
            (home / ".zshrc").write_text("fpath=($ZDOTDIR $fpath)\nautoload -Uz compinit\ncompinit -u -d $ZDOTDIR/dump\n"
                                         "show() { print -r -- $BUFFER > $ZDOTDIR/line; exit }\nzle -N show\n"
                                         "bindkey '^X' show\nPS1='ready> '\nunsetopt zle_bracketed_paste beep\n")
            child, terminal = pty.fork()
            if child == 0:
                os.environ.update({"ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb"})
                os.chdir(home)
                os.execvp("zsh", ["zsh", "-i"])
            try:
                self.read_until(terminal, b"ready> ")
                os.write(terminal, line.encode() + b"\t")
                self.read_until(terminal, None, 1.5)
                os.write(terminal, b"\x18")
                self.read_until(terminal, None, 5)
            finally:
                os.close(terminal)
                os.waitpid(child, 0)
            return (home / "line").read_text().rstrip("\n")

    def read_until(self, terminal, text, seconds=20):
        """Reads until the text has come, the output ends or the time is over; if `text` is None, only the end or the time counts."""
        seen, end = b"", time.monotonic() + seconds
        while (text is None or text not in seen) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 4096)
                except OSError:
                    return
                if not part:
                    return
                seen += part

    def test_commands_flags_and_values(self):
        for typed, completed in (("terrace tr", "terrace train "), ("terrace data ins", "terrace data inspect "),
                                 ("terrace train --res", "terrace train --resume "),
                                 ("terrace train --set checkpoint.ev", "terrace train --set checkpoint.every="),
                                 ("terrace generate run --device au", "terrace generate run --device auto ")):
            self.assertEqual(self.complete(typed).rstrip(), completed.rstrip())


class Manual(unittest.TestCase):
    def test_names_every_command_and_every_flag_of_its_help(self):
        page = printed("man").replace("\\-", "-")
        for leaf in LEAVES:
            self.assertIn(f".SS \\fBterrace {leaf}\\fR", page)
            help_text = printed(*leaf.split(), "--help")
            for flag in re.findall(r"^  .*?(--[a-z][a-z-]*)", help_text, re.M):
                self.assertIn(f"\\fB{flag}\\fR", page)

    @missing("groff")
    def test_is_set_without_a_warning(self):
        page = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=printed("man"), capture_output=True, text=True)
        self.assertEqual((page.returncode, page.stderr), (0, ""))

    def test_what_is_installed_is_what_the_program_prints(self):
        folder = BUILD / "own_texts"
        if not (folder / "terrace.1").exists():
            self.skipTest("this build makes no texts to install")
        for name, arguments in (("terrace.1", ["man"]), ("terrace", ["completion", "bash"]),
                                ("_terrace", ["completion", "zsh"]), ("terrace.fish", ["completion", "fish"])):
            self.assertEqual((folder / name).read_text(), printed(*arguments))


class Help(unittest.TestCase):
    def test_every_command_shows_examples_and_the_manual_has_the_same(self):
        page = printed("man").replace("\\-", "-").replace("\\(rs", "\\")
        of_manual = re.findall(r"^\.EX\n  (.*)\n\.EE", page, re.M)
        of_help = []
        for leaf in LEAVES:
            help_text = printed(*leaf.split(), "--help")
            self.assertNotIn("->", help_text)  # as the library shows words that stand for numbers of its own
            shown = re.findall(r"^  # .*\n  (.*)", help_text, re.M)
            self.assertTrue(shown, leaf)
            of_help += shown
        self.assertEqual(sorted(of_help), sorted(of_manual))

    def in_terminal(self, columns, *arguments):
        """What the program prints on a terminal of so many columns."""
        own, terminals = pty.openpty()
        fcntl.ioctl(terminals, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        with subprocess.Popen([TERRACE, *arguments], stdout=terminals, stderr=subprocess.DEVNULL, env=environment) as program:
            os.close(terminals)
            text = b""
            while True:
                try:
                    part = os.read(own, 65536)
                except OSError:  # the program has ended
                    break
                if not part:
                    break
                text += part
        os.close(own)
        self.assertEqual(program.returncode, 0)
        return text.decode().replace("\r\n", "\n")

    def test_is_wrapped_to_the_terminal_and_says_the_same(self):
        words = lambda text: [word for word in re.sub(r" \\\n", " ", text).split() if word != "#"]
        for leaf in ("", *LEAVES):
            whole = printed(*leaf.split(), "--help")
            for columns in (60, 100):
                wrapped = self.in_terminal(columns, *leaf.split(), "--help")
                self.assertEqual(words(wrapped), words(whole))
                for line in wrapped.splitlines():
                    # A single word may be longer than its place.
                    is_word = len(line.rstrip(" \\").split()) == 1 or len(line[30:].split()) == 1
                    self.assertTrue(len(line) <= columns or is_word or '"' in line, f"{leaf}, {columns}: {line}")
        # Commands can be copied: a shell reads the same words.
        shown = re.findall(r"(?:^  # .*\n)+  ((?:.*\\\n)*.*)", self.in_terminal(60, "plan", "--help"), re.M)
        for example, of_manual in zip(shown, re.findall(r"^  # .*\n  (.*)", printed("plan", "--help"), re.M), strict=True):
            self.assertEqual(shlex.split(example.replace("\\\n", "")), shlex.split(of_manual))
        self.assertIn("\\\n", "".join(shown))

    def test_commands_are_all_known_to_this_test(self):
        def leaves(path):
            below = re.search(r"^Subcommands:\n((?:  .*\n?)+)", printed(*path, "--help"), re.M)
            if not below:
                return [" ".join(path)]
            names = re.findall(r"^  (\S+)", below[1], re.M)
            return [leaf for name in names for leaf in leaves([*path, name])]

        self.assertEqual(sorted(leaves([])), sorted(LEAVES))


class Misspelt(unittest.TestCase):
    def expect(self, arguments, *said):
        result = terrace(*arguments)
        self.assertEqual(result.returncode, 2)
        for text in said:
            self.assertIn(text, result.stderr)

    def test_words_are_named_with_the_nearest(self):
        self.expect(["trian", "run.toml"], "error: terrace has no subcommand trian; did you mean train?")
        self.expect(["data", "perpare"], "terrace data has no subcommand perpare; did you mean prepare?")
        self.expect(["train", "run.toml", "--resum", "auto"], "terrace train has no flag --resum; did you mean --resume?")
        self.expect(["data", "prepare", "x", "--ouput=y"], "no flag --ouput; did you mean --output?")
        self.expect(["xyzzy"], "no subcommand xyzzy. Its subcommands are train, evaluate, data")
        self.expect([""], 'error: terrace has no subcommand "". Its subcommands are train')
        # The word after a flag is its value, even if it looks like a flag.
        self.expect(["generate", "absent", "--prompt", "--resume"], "absent")


if __name__ == "__main__":
    unittest.main()
