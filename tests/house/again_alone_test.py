"""./test runs failing tests again alone by their names: a small project whose failing tests stand behind one that is left out, as lint is, by
which ctest numbers the others. One of them fails the first time, one always."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small NONE)
enable_testing()
add_test(NAME left_out COMMAND true)
add_test(NAME passes COMMAND true)
add_test(NAME "fails.once 1 of 2" COMMAND sh -c "test -e again || { touch again; false; }")
add_test(NAME passes_too COMMAND true)
add_test(NAME Always/Fails COMMAND false)
"""
PRESETS = """{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "build"}],
"testPresets": [{"name": "release", "configurePreset": "release"}]}"""
# The functions of ./test, without what it does.
SCRIPT = r"""
mkdir -p tests/house build/logs
cp "$1/tests/house/count_tests.awk" tests/house
. "$1/tools/steps.sh"
eval "$(sed -n '/^[a-z_]*() {/,/^}/p' "$1/test")"
STEP_LOGS=build/logs filter="" passed=0 failed=0 skipped=0 failures=() only_alone=()
tests "tests" release -E '^left_out$'
printf 'failures: %s\nonly alone: %s\n' "${failures[*]}" "${only_alone[*]}"
"""


class AgainAloneTest(unittest.TestCase):
    def test_what_fails_twice_is_a_failure_and_what_fails_once_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "CMakeLists.txt").write_text(PROJECT)
            (folder / "CMakePresets.json").write_text(PRESETS)
            subprocess.run(["cmake", "--preset", "release"], cwd=folder, check=True, capture_output=True)
            done = subprocess.run(["bash", "-c", SCRIPT, "test", str(ROOT)], cwd=folder, capture_output=True, text=True)
            self.assertIn("failures: tests: Always/Fails\n", done.stdout + done.stderr)
            self.assertIn("only alone: fails.once 1 of 2\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
