"""Bytes a second that one core encodes with a byte-level BPE trained on the text itself: the tokenizers package against
terrace, five rounds in processor time, with both expressions for words.

Usage: byte_pair_rate.py BUILD_FOLDER TEXT...
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/data"))

from byte_pair_cases import LLAMA3, byte_level, train


def measure(build, folder, name, pattern, text):
    tokenizer = train([text[:1 << 23]], byte_level(pattern), 32000, ignore_merges=pattern is not None)
    tokenizer.save(str(folder / "tokenizer.json"))
    size = len(text.encode()) / 1e6
    theirs, ours, counts = [], [], set()
    for _ in range(5):
        began = time.process_time()
        # Line by line, as it is fed in practice: a single text takes it many times as long.
        counts.add(sum(len(tokenizer.encode(line).ids) for line in text.splitlines(keepends=True)))
        theirs.append(size / (time.process_time() - began))
        said = subprocess.run([build / "bench/bench_data_byte_pair_rate", folder / "tokenizer.json", folder / "text"],
                              capture_output=True, text=True, check=True).stdout.split()
        ours.append(float(said[0]))
    ratios = [our / their for our, their in zip(ours, theirs)]
    for label, values in (("tokenizers", theirs), ("terrace", ours), ("ratio", ratios)):
        print(f"{name:8} {label:10} median {statistics.median(values):7.2f}, {min(values):.2f} to {max(values):.2f}")
    print(f"{name:8} tokens {said[1]}, line by line {counts}")


def main():
    build = pathlib.Path(sys.argv[1])
    text = "".join(pathlib.Path(path).read_text(encoding="utf-8", errors="ignore") for path in sys.argv[2:])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text").write_text(text, encoding="utf-8", newline="")
        measure(build, folder, "gpt2", None, text)
        measure(build, folder, "llama3", LLAMA3, text)


if __name__ == "__main__":
    main()
