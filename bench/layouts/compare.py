"""Our trainer on two ranks beside PyTorch's DDP and FSDP2 on two processes, and beside itself on one rank with two threads.

    cmake --build build/release --target bench_layouts_trainer
    .deps/python/bin/python bench/layouts/compare.py [--workloads A,B] [--precisions fp32,bf16] [--layouts ddp,zero1,zero3]
                                                     [--peers NAME,...] [--rounds 8] [--steps 2] [--output FILE.md]

All stay resident and take turns, as in bench/step/compare.py: in each round everyone runs a few steps and the fastest counts;
ratios are taken within the round, and the table has their median and quartiles over the rounds.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench/step"))
from compare import machine, quartiles, tuned_environment, write_corpus  # noqa: E402
from participant import Failed, Participant  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

TRAINER = ROOT / "build/release/bench/bench_layouts_trainer"
PEERS = ("ddp", "fsdp2", "ddp tuned", "fsdp2 tuned")


def participants(workload, precision, options, folder):
    prefix = folder / "random"
    config = folder / f"{workload}_{precision}.toml"
    config.write_text(WORKLOADS[workload].config(prefix, precision, folder / "run"))
    ours = [Participant("one rank, two threads", [TRAINER, config, "1"])]
    ours += [Participant(layout, [TRAINER, config, "2", f"layout.sharding={layout}"]) for layout in options.layouts]
    tuned = tuned_environment(folder)
    theirs = []
    for peer in options.peers:
        how, _, setting = peer.partition(" ")
        command = [sys.executable, HERE / "peer.py", workload, precision, how, f"{prefix}.bin"]
        theirs.append(Participant(f"PyTorch {peer}", command, {"OMP_NUM_THREADS": "1", **(tuned if setting else {})}))
    return ours, theirs


def started(runners):
    alive = []
    for runner in runners:
        try:
            runner.start()
            alive.append(runner)
        except Failed as failure:
            print(failure, file=sys.stderr)
    return alive


def ratio(of, to):
    """How many times the tokens per second of `to` the ones of `of` are."""
    low, middle, high = quartiles([min(theirs) / min(own) for theirs, own in zip(to.rounds, of.rounds)])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def measure(workload, precision, options, folder):
    ours, theirs = (started(runners) for runners in participants(workload, precision, options, folder))
    for number in range(options.rounds):
        for runner in ours + theirs:
            runner.go(options.steps)
        print(f"{workload} {precision}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for runner in ours + theirs:
        runner.stop()
    rows = []
    for runner in ours + theirs:
        fastest = statistics.median(min(times) for times in runner.rounds)
        rows.append([
            workload, precision, runner.name, f"{1e3 * WORKLOADS[workload].tokens / fastest:.0f}",
            ratio(runner, ours[0]) if runner is not ours[0] else "",
            *(ratio(runner, peer) if runner in ours else "" for peer in theirs),
            f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}",
        ])  # fmt: skip
    return [peer.name for peer in theirs], rows


def table(peers, rows):
    headings = ["", "type", "trainer", "tokens/s", "to one rank", *(f"to {peer}" for peer in peers), "losses"]
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows]) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="A,B", type=lambda text: text.split(","))
    parser.add_argument("--precisions", default="fp32,bf16", type=lambda text: text.split(","))
    parser.add_argument("--layouts", default="ddp,zero1,zero3", type=lambda text: text.split(","))
    parser.add_argument("--peers", default=PEERS, type=lambda text: [name for name in text.split(",") if name])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="of each in a round")
    parser.add_argument("--output", help="also write the table to this file")
    return parser.parse_args()


def main():
    options = arguments()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    text = f"{machine()}; commit {commit.stdout.strip()}; {' '.join(sys.argv[1:])}\n"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_corpus(folder / "random", 8192)
        for workload in options.workloads:
            for precision in options.precisions:
                text += "\n" + table(*measure(workload, precision, options, folder))
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    print(text)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    main()
