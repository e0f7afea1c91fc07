"""The corpus of ./demo, for benchmarks that train on it."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def demo_corpus():
    """The prefix of the demo's tokens, made as ./demo makes them where they are not there yet."""
    prefix = ROOT / "data/demo/text"
    if not pathlib.Path(f"{prefix}.idx").exists():
        subprocess.run([ROOT / "tools/corpus", "data/corpus"], cwd=ROOT, check=True, stdout=sys.stderr)
        command = "data prepare data/corpus --output data/demo/text --train-tokenizer data/demo/tokenizer.model --vocabulary 4096 --overwrite"
        subprocess.run([ROOT / "build/release/terrace", *command.split()], cwd=ROOT, check=True, stdout=sys.stderr)
    return prefix
