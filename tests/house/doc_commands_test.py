"""Runs the commands of the documents that doc_commands.txt marks so, in its order, with the binary of a build folder, and
then the examples of the program's own help."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WRITTEN = {"build", "docs", "runs", "data", "exported", "imported", ".git"}


def commands(are_run=True):
    """Those that are run here, or those that other tests run."""
    for line in (SOURCE / "tests/house/doc_commands.txt").read_text().splitlines():
        kind, _, command = line.partition(": ")
        if (kind in ("first", "run")) == are_run:
            yield command


def examples(terrace):
    """The examples of every command in the order of the manual page, which has those of --help."""
    page = subprocess.run([terrace, "man"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\.EX\n  (.*)\n\.EE", page.replace("\\-", "-").replace("\\(rs", "\\"), re.M)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    environment = os.environ | {"PATH": f"{build}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        # A tree as a reader has it, in which what commands write goes elsewhere.
        for entry in SOURCE.iterdir():
            if entry.name not in WRITTEN:
                (pathlib.Path(folder) / entry.name).symlink_to(entry)
        (pathlib.Path(folder) / "build").mkdir()
        # The documents are the corpus of many commands; a few of them are enough.
        (pathlib.Path(folder) / "docs").mkdir()
        for page in sorted((SOURCE / "docs").glob("*.md"))[:5]:
            (pathlib.Path(folder) / "docs" / page.name).symlink_to(page)
        (pathlib.Path(folder) / "build/release").symlink_to(build)
        count = 0
        documented = list(commands())
        elsewhere = set(commands(are_run=False))
        shown = [command for command in examples(build / "terrace") if command not in documented and command not in elsewhere]
        for command in documented + shown:
            count += 1
            print(f"$ {command}", flush=True)
            result = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
            if result.returncode != 0:
                print(result.stdout)
                print(f"exit code {result.returncode}: correct the command in the document or in cli/examples.cpp, or the program")
                return 1
    print(f"{count} commands run")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
