"""Our trainer's layouts on two ranks beside those of PyTorch and DeepSpeed on two processes, and beside itself on one rank with
two threads.

    cmake --build build/release --target bench_layouts_trainer
    .deps/python/bin/python bench/layouts/compare.py [--workloads A,B] [--precisions fp32,bf16] [--kinds data,tensor,pipeline]
                                                     [--peers NAME,...] [--together 3] [--rounds 8] [--steps 2] [--output FILE.md]

Ours and a few peers of their kind, so many as memory holds together, stay resident and take turns, as in bench/step/compare.py:
in each round everyone runs a few steps and the fastest counts; ratios are taken within the round, and the table has
their median and quartiles over the rounds, for the peers of the kind from the best to the worst. How to install
DeepSpeed says deepspeed_peer.py.
"""
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "step"))
from comparison import (  # noqa: E402
    ROOT, argument_parser, compare, corpus_in, names, ratios, spread, started, table, take_turns, tuned_environment,
)  # fmt: skip
from participant import Participant  # noqa: E402
from workloads import MICRO_BATCHES, WORKLOADS  # noqa: E402

TRAINER = ROOT / "build/release/bench/bench_layouts_trainer"
DEEPSPEED = ROOT / ".deps/deepspeed"

# Ours, with the settings of each.
LAYOUTS = {
    "data": {name: [f"layout.sharding={name}"] for name in ("ddp", "zero1", "zero3")},
    "tensor": {"tensor": ["layout.tensor=2"], "tensor sp": ["layout.tensor=2", "layout.sequence_parallel=true"]},
    "pipeline": {
        f"pipeline {name}": [
            "layout.pipeline=2", f"layout.schedule={name}", f"layout.chunks={chunks}", "train.micro_batch={micro_batch}",
        ]
        for name, chunks in (("1f1b", 1), ("zb-h1", 1), ("zb-v", 2))
    },
}
PEERS = {
    "data": {"ddp": "DDP", "fsdp2": "FSDP2", "zero1": "DeepSpeed ZeRO-1", "zero3": "DeepSpeed ZeRO-3"},
    "tensor": {"tensor": "DTensor"},
    "pipeline": {"pipeline": "torch pipelining 1F1B"},
}
ALL_PEERS = [peer + setting for kind in PEERS.values() for peer in kind for setting in ("", " tuned")]
HEADINGS = ["", "type", "trainer", "tokens/s", "to one rank", "to its peers, best first", "losses"]


def our_participants(workload, config, kind, trainer=TRAINER):
    shape = WORKLOADS[workload]
    ours = [Participant("one rank, two threads", [trainer, config, "1"])]
    for name, settings in LAYOUTS[kind].items():
        settings = [setting.format(micro_batch=shape.batch // MICRO_BATCHES) for setting in settings]
        ours.append(Participant(name, [trainer, config, "2", *settings]))
    return ours


def peer_participants(workload, precision, kind, options, folder):
    tuned = tuned_environment(folder)
    theirs = []
    for peer in options.peers:
        how, _, setting = peer.partition(" ")
        if how not in PEERS[kind] or (how.startswith("zero") and not DEEPSPEED.is_dir()):
            continue
        name = " ".join([PEERS[kind][how], setting]).strip()
        command = [sys.executable, HERE / "peer.py", workload, precision, how, f"{corpus_in(folder, WORKLOADS[workload].vocabulary)}.bin"]
        environment = {"OMP_NUM_THREADS": "1", "TORCH_EXTENSIONS_DIR": str(ROOT / ".deps/deepspeed/extensions")}
        theirs.append(Participant(name, command, {**environment, **(tuned if setting else {})}))
    return theirs


def row(workload, precision, runner, ours, theirs):
    """`theirs` has the number of rounds before each peer's first."""
    fastest = statistics.median(min(times) for times in runner.rounds)
    to_peers = [(ratios(runner, peer, first), peer.name) for peer, first in theirs.items()] if runner in ours else []
    low, middle, high = ratios(ours[0], runner, theirs.get(runner, 0))
    return [
        workload, precision, runner.name, f"{1e3 * WORKLOADS[workload].tokens / fastest:.0f}",
        spread(1 / high, 1 / middle, 1 / low) if runner is not ours[0] else "",
        ", ".join(f"{name} {spread(*ratio)}" for ratio, name in sorted(to_peers, key=lambda entry: entry[0][1])),
        f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}",
    ]  # fmt: skip


def measure(workload, precision, options, folder):
    """The rows of one table: each kind by itself."""
    config = folder / f"{workload}_{precision}.toml"
    config.write_text(WORKLOADS[workload].config(corpus_in(folder, WORKLOADS[workload].vocabulary), precision, folder / "run"))
    rows = []
    for kind in options.kinds:
        ours, theirs = started(our_participants(workload, config, kind)), {}
        peers = peer_participants(workload, precision, kind, options, folder)
        for begin in range(0, max(1, len(peers)), options.together):
            first = len(ours[0].rounds)
            present = started(peers[begin : begin + options.together])
            theirs.update((peer, first) for peer in present)
            take_turns(f"{workload} {precision} {kind}", ours + present, options)
            for peer in present:
                peer.stop()
        for runner in ours:
            runner.stop()
        rows += [row(workload, precision, runner, ours, theirs) for runner in [*ours, *theirs]]
    return rows


def text_of(results):
    text = "\n".join(table(HEADINGS, rows) for rows in results)
    return text if DEEPSPEED.is_dir() else text + "\nWithout DeepSpeed, which is not installed: see deepspeed_peer.py.\n"


def main():
    parser = argument_parser(__doc__, ["A", "B"], ALL_PEERS, rounds=8, steps=2)
    parser.add_argument("--kinds", default=list(LAYOUTS), type=names)
    parser.add_argument("--together", type=int, default=3, help="peers that are resident at a time")
    options = parser.parse_args()
    unknown = [peer for peer in options.peers if peer not in ALL_PEERS]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(ALL_PEERS)}")
    compare(options, measure, text_of)


if __name__ == "__main__":
    main()
