"""Tests that cmake --install finds all that it installs where only the program was built, as ./demo builds it."""
import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1]).resolve()


def ninja(*words):
    return subprocess.run(["ninja", "-C", BUILD, "-t", *words], capture_output=True, text=True, check=True).stdout


def inputs_of_edge(file):
    """What the command reads that makes a file."""
    section = re.search(r"  input: (.*?)\n  outputs:", ninja("query", file), re.S)
    return section[1] if section else file


def main():
    outputs = {line.rsplit(": ", 1)[0] for line in ninja("targets", "all").splitlines()}
    installed = set()
    for script in BUILD.rglob("cmake_install.cmake"):
        installed |= set(re.findall(rf'"{re.escape(str(BUILD))}/([^"]+)"', script.read_text()))
    built = sorted(installed & outputs)
    for file in ("terrace", "libterrace_base.a", "own_texts/terrace.1"):
        assert file in built, f"{file} is not among the installed files: {built}"
    needed = {line.strip() for line in ninja("inputs", "terrace").splitlines()}
    of_program = inputs_of_edge("terrace")
    missing = [file for file in built if file not in needed and inputs_of_edge(file) != of_program]
    if missing:
        sys.exit(f"cmake --install copies files that the target terrace_program does not make: {', '.join(missing)}")


if __name__ == "__main__":
    main()
