"""Judges what ./demo left in a run's folder: a model that predicts held-out text well below a unigram model's loss, and a
report that names the folder in place of its files."""
import json
import subprocess
import sys


def report(terrace, *arguments):
    return subprocess.run([terrace, "report", *arguments], check=True, capture_output=True, text=True).stdout


def main():
    terrace, run = sys.argv[1:]
    summary = json.loads(report(terrace, run, "--json"))
    drawn = report(terrace, run, "--text")
    wrong_report = f"{run}, " not in drawn or any(file["path"] in drawn for file in summary["files"])
    missing = [key for key, value in summary.items() if value is None]
    gained = summary["unigram_loss"] - summary["validation_loss"]
    print(f"held-out loss {summary['validation_loss']:.3f}, unigram model {summary['unigram_loss']:.3f}")
    if missing:
        print(f"not measured: {', '.join(missing)}")
    # Half a nat is a third off the perplexity, which seconds of training reach.
    if gained < 0.5:
        print(f"only {gained:.3f} nats below the unigram model; a working trainer is at least 0.5 below it by now")
    if wrong_report:
        print(f"terrace report --text does not name the folder {run} and its size, or lists its files without --files")
    return 1 if missing or gained < 0.5 or wrong_report else 0


if __name__ == "__main__":
    sys.exit(main())
