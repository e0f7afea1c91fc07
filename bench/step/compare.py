"""Our trainer beside PyTorch, eager and compiled, as installed and tuned, on the same model, data and optimizer.

    cmake --build build/release --target bench_step_trainer
    .deps/python/bin/python bench/step/compare.py [--workloads A,B,C] [--precisions fp32,bf16] [--peers NAME,...]
                                                  [--rounds 12] [--steps 3] [--output FILE.md] [--vectors avx2]

All stay resident and take turns: in each round everyone runs a few steps and the fastest counts; the ratio to a peer is
taken within the round, and the table has its median and quartiles over the rounds. "Tuned" is what a careful user sets:
MKL set to take its best kernels on any CPU, and a malloc that keeps its memory and uses huge pages.
"""
import pathlib
import statistics
import sys

from comparison import (
    ROOT, argument_parser, compare, corpus_in, ratios, spread, started, table, take_turns, tuned_environment,
)  # fmt: skip
from participant import Participant
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ("eager", "compile", "eager tuned", "compile tuned")


def participants(workload, precision, peers, folder):
    shape = WORKLOADS[workload]
    prefix = corpus_in(folder, shape.vocabulary)

    def trainer(name, precision):
        config = folder / f"{workload}_{precision}.toml"
        config.write_text(shape.config(prefix, precision, folder / f"run_{precision}"))
        return Participant(name, [ROOT / "build/release/bench/bench_step_trainer", config])

    tuned = tuned_environment(folder)
    all_of_them = [trainer("terrace", precision)]
    for peer in peers:
        how, _, setting = peer.partition(" ")
        if how == "own":
            all_of_them.append(trainer(peer, setting))
            continue
        environment = dict(tuned) if setting else {}
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        command = [sys.executable, HERE / "peer.py", shape.spec(), precision, how, f"{prefix}.bin"]
        all_of_them.append(Participant(peer, command, environment))
    return all_of_them


def measure(workload, precision, options, folder):
    """Rows of the table for one workload in one precision, and the rate of products."""
    yardstick = Participant("products", [sys.executable, HERE / "products.py"])
    yardstick.start()
    runners = started(participants(workload, precision, options.peers, folder), options.starts)
    take_turns(f"{workload} {precision}", runners, options, before_round=lambda: yardstick.go(1))
    for runner in [yardstick, *runners]:
        runner.stop()
    best_rate = 1e9 * max(rates[precision == "bf16"] for rates in yardstick.rounds)
    rate = f"{workload} {precision} {best_rate / 1e9:.0f}"
    return [row(workload, precision, runner, runners[0], best_rate) for runner in runners], rate


def row(workload, precision, runner, ours, best_rate):
    shape = WORKLOADS[workload]
    fastest = [min(times) for times in runner.rounds]
    tokens = 1e3 * shape.tokens / statistics.median(fastest)
    cells = [
        workload, precision, runner.name, f"{tokens:.0f}", f"{1e3 * shape.tokens / min(fastest):.0f}",
        "" if runner is ours else spread(*ratios(ours, runner)),
        f"{1e3 * shape.flops / min(fastest) / best_rate:.2f}",
        f"{runner.peak_bytes / 2**20:.0f}", "" if runner is ours else f"{ours.peak_bytes / runner.peak_bytes:.2f}",
        f"{runner.first_step_seconds:.1f}",
        f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}", f"{100 * statistics.median(runner.foreign):.0f}%",
    ]  # fmt: skip
    return cells


HEADINGS = [
    "", "type", "trainer", "tokens/s, median", "fastest", "ours to it (quartiles)", "share of products", "peak MiB",
    "ours to it", "first step s", "losses", "others' CPU",
]  # fmt: skip


def text_of(results):
    rates = ", ".join(rate for _, rate in results)
    return f"Products, GFLOP/s: {rates}\n\n" + table(HEADINGS, [row for rows, _ in results for row in rows])


def main():
    parser = argument_parser(__doc__, ["A", "B", "C"], PEERS, rounds=12, steps=3)
    parser.add_argument("--starts", type=int, default=1, help="of each; the first step's time is the least")
    compare(parser.parse_args(), measure, text_of)


if __name__ == "__main__":
    main()
