"""Shardings with plain and with quantized wires between two nodes over slow links.

    cmake --build build/release --target bench_slow_link_steps terrace_program
    .deps/python/bin/python bench/slow_link/compare.py [--parts links,sweep,overlap,outer] [--micro-batches 1,4,8] [--rounds 5] [--output FILE.md]
                                                       [--row 'NAME=section.key=value ...'] [--quick] [section.key=value...]

The nodes are network namespaces joined by a link of a set rate, with two ranks each; all four share the cores of this
machine. Trainers of all rows are resident in one job and take turns; ratios are taken within a round, and the tables have
medians and quartiles over the rounds.

Part `links` sets the link so slow that zero3 waits for communication twice as long as it computes, then, with the most
micro-batches, so that ZeRO++'s setting waits 1.5 times as long. A step's computation is that of ranks that train the same
micro-batches by themselves, all at the same time; the rest of the step is waiting. Hidden is the part of the time that
the calls between the nodes take by themselves for which the step did not wait in such a call. A rank also waits there for
other ranks, whatever the link: what a step waits in these calls on a free link is taken off in `hidden beside a free link`.

Part `sweep` runs plain and quantized wires on links from 100 Mbit/s to 10 Gbit/s, with so short sequences that little is
computed, and beside them what `terrace plan` predicts for a description of this machine: `terrace calibrate` measures it before
in two such nodes with a free link, and each rate takes the place of the network's.

Part `overlap` runs ZeRO++'s setting and three levels on the rates of --rates, once as terrace trains and once with ranks that wait for each call
at once, and says at which rate three levels have the published gain, measured and predicted.

Part `outer` runs copies that train by themselves for --outer-every steps (layout.outer_every), a node each, beside training that sums gradients in every
step, on the rates of --rates. A measurement of a copy has so many steps, with one outer update among them. In transfers is the share of the time that a
rank waits for calls between the nodes, a mean over the ranks; beside it the time of these calls by themselves, as a share of the same time, and the share of the plan. In votes is
the share that a rank waits in the short sums of every step over all ranks, mostly for ranks that share its core.

Needs root and `tc`; exits with 77 without.
"""
import argparse
import os
import pathlib
import shlex
import shutil
import signal
import sys
import tempfile
import time

from slow_link import Job, ROOT, crossing_bytes, milliseconds  # first: sets the path
from comparison import machine, names, quartiles, spread, table
from namespaces import NotAllowed
from outer import outer_text
from overlap import overlap_text
from planned import Planned, calibrated, crossing

MODEL = {"model.layers": 4, "model.width": 192, "model.heads": 3, "model.sequence": 256, "train.precision": "bf16"}
QUICK = {"model.layers": 2, "model.width": 64, "model.heads": 2, "model.sequence": 32, "train.precision": "fp32"}
ZERO3, ZERO_PP, THREE = "zero3", "ZeRO++'s setting", "three levels"
QUANTIZED = ", int8 and int4"
BETWEEN = ", int8 and int4 between nodes"
# Weights in the type they are kept in, gradients in bf16, unless a row says otherwise.
ROWS = {
    ZERO3: "layout.sharding=zero3 layout.reduce_type=bf16",
    ZERO3 + QUANTIZED: "layout.sharding=zero3 layout.gather_type=int8 layout.reduce_type=int4",
    ZERO_PP: "layout.sharding=node layout.gather_type=int8 layout.update_type=int8 layout.reduce_type=int4",
    THREE: "layout.sharding=three_level layout.reduce_type=bf16",
    THREE + QUANTIZED: "layout.sharding=three_level layout.update_type=int8 layout.reduce_type=int4",
    THREE + BETWEEN: "layout.sharding=three_level layout.update_type=int8 layout.reduce_type=int4 layout.node_type=same",
}
PAIRS = (ZERO3, THREE)
RATES = (100, 200, 500, 1000, 2000, 5000, 10000)  # Mbit/s
# Much to move and little to compute, so that what differs is moving and coding.
SWEEP = {"model.width": 384, "model.heads": 6, "model.sequence": 32}
APART = "apart"
LINK_HEADINGS = ["link, Mbit/s", "micro-batches", "row", "step, ms", "computes, ms", "waits / computes", "in calls, ms", "hidden", "hidden beside a free link",
                 "MB out of a node", "by formula: rings, direct", "zero3 / row", "ZeRO++'s / row"]  # fmt: skip
SWEEP_HEADINGS = ["link, Mbit/s"] + [f"{pair}{what}" for pair in PAIRS
                                     for what in (", ms", QUANTIZED + ", ms", ": plain / quantized", ": predicted")]  # fmt: skip


def say(text):
    print(text, file=sys.stderr, flush=True)


def median(values):
    return quartiles(values)[1]


class Links:
    """Rounds of all rows on links on which one of them waits so many times as long as it computes."""

    def __init__(self, job, options):
        self.job, self.options, self.lines, self.found, self.foreign = job, options, [], {}, []
        for count in options.micro_batches:
            job.add(f"{APART} {count}", [], options.micro_batch, count, apart=True)
            for name, settings in options.rows.items():
                job.add(f"{name} {count}", settings.split(), options.micro_batch, count)
            say(f"{count} micro-batches: {len(options.rows)} rows are resident")

    def steps(self, name, count):
        # Many micro-batches make a long step.
        return self.job.steps(f"{name} {count}", max(1, self.options.steps // count))

    def waits(self, name, count):
        """(how many times as long as it computes the step waits, seconds that it computes, bytes sent)."""
        turns = [(self.steps(APART, count).seconds, self.steps(name, count)) for _ in range(max(1, self.options.tries // count))]
        computes = median([seconds for seconds, _ in turns])
        return median([row.seconds / seconds - 1 for seconds, row in turns]), computes, turns[0][1].sent

    def set_link(self, name, count, share):
        """Gives Mbit/s on which the row waits `share` times as long as it computes."""
        if name not in self.found:
            self.job.limit(0)
            _, computes, sent = self.waits(name, count)
            self.found[name] = 8e-6 * sent / (share * computes)
        megabits, tried = self.found[name], {}
        for _ in range(self.options.tries):
            self.job.limit(megabits)
            found, _, _ = self.waits(name, count)
            say(f"{name}, {count} micro-batches, {megabits:.0f} Mbit/s: waits {found:.2f} times as long as it computes")
            tried[megabits] = abs(found - share)
            if tried[megabits] < 0.05 * share:
                break
            megabits *= min(2, max(1 / 2, found / share))
        # On a busy machine the computation may have changed since then.
        megabits = min(tried, key=tried.get)
        self.job.limit(megabits)
        self.found[name] = megabits
        return megabits

    def measure(self, name, count, share, left_out=()):
        megabits = self.set_link(name, count, share)
        rows = {row: [] for row in self.options.rows if row not in left_out}
        computed, began, cpu = [], time.time(), self.job.cpu_seconds()
        for number in range(self.options.rounds):
            computed.append(self.steps(APART, count).seconds)
            for row, steps in rows.items():
                steps.append(self.steps(row, count))
                steps[-1].alone = self.job.alone(f"{row} {count}", steps[-1].groups)
            self.job.limit(0)
            for row, steps in rows.items():
                steps[-1].waited_free = self.steps(row, count).waited
            self.job.limit(megabits)
            say(f"{megabits:.0f} Mbit/s, {count} micro-batches: round {number + 1} of {self.options.rounds}")
        busy, own = (after - before for before, after in zip(cpu, self.job.cpu_seconds()))
        self.foreign.append((busy - own) / (time.time() - began) / os.cpu_count())
        seconds = {row: [one.seconds for one in steps] for row, steps in rows.items()}
        lines = []
        for row, steps in rows.items():
            waits = quartiles([one.seconds / own - 1 for one, own in zip(steps, computed)])
            hidden = [1 - one.waited / one.alone for one in steps]
            free = median([one.waited_free for one in steps])
            beside_free = [1 - (one.waited - free) / one.alone for one in steps]
            formula = [f"{1e-6 * size:.1f}" for size in crossing_bytes(steps[0].groups)]
            lines.append([
                f"{megabits:.0f}", str(count), row, milliseconds(seconds[row]), milliseconds(computed), spread(*waits),
                f"{1e3 * median([one.waited for one in steps]):.0f} of {1e3 * median([one.alone for one in steps]):.0f}; free {1e3 * free:.0f}",
                f"{100 * median(hidden):.0f}%", f"{100 * median(beside_free):.0f}%", f"{1e-6 * median([one.sent for one in steps]):.1f}", ", ".join(formula),
                *(spread(*quartiles([a / b for a, b in zip(seconds[base], seconds[row])])) if base in seconds else "" for base in (ZERO3, ZERO_PP)),
            ])  # fmt: skip
        say(table(LINK_HEADINGS, lines))
        self.lines += lines

    def text(self):
        for count in self.options.micro_batches:
            self.measure(ZERO3, count, 2)
        # On so slow a link steps of zero3 would take minutes.
        self.measure(ZERO_PP, max(self.options.micro_batches), 1.5, left_out=(ZERO3, ZERO3 + QUANTIZED))
        others = ", ".join(f"{100 * share:.0f}%" for share in self.foreign)
        return f"# Where the link dominates\n\n{table(LINK_HEADINGS, self.lines)}\nShare of the CPUs that other programs had on each link: {others}\n"


def sweep_text(job, options):
    rows = [pair + wires for pair in PAIRS for wires in ("", QUANTIZED)]
    settings = [] if options.quick else [f"{key}={value}" for key, value in SWEEP.items()]
    for row in rows:
        job.add(f"sweep {row}", [*options.rows[row].split(), *settings], 1, 1)
    seconds = {}
    for megabits in options.rates:
        job.limit(megabits)
        times = {row: [] for row in rows}
        for number in range(options.sweep_rounds):
            for row in rows:
                times[row].append(job.steps(f"sweep {row}", options.sweep_steps).seconds)
        say(f"{megabits} Mbit/s: {options.sweep_rounds} rounds")
        seconds[megabits] = times
    job.limit(0)
    planned = Planned([*options.settings, *settings, "train.micro_batch=1", "train.global_batch=4"], options.folder, options.description)

    def gain(megabits, pair):
        return quartiles([plain / other for plain, other in zip(seconds[megabits][pair], seconds[megabits][pair + QUANTIZED])])

    def predicted(megabits, pair):
        plain, other = (planned.seconds(options.rows[pair + wires].split(), megabits) for wires in ("", QUANTIZED))
        return plain / other

    lines = []
    for megabits in options.rates:
        line = [str(megabits)]
        for pair in PAIRS:
            line += [milliseconds(seconds[megabits][pair]), milliseconds(seconds[megabits][pair + QUANTIZED]),
                     spread(*gain(megabits, pair)), f"{predicted(megabits, pair):.2f}"]  # fmt: skip
        lines.append(line)
    text = f"# From slow links to fast ones\n\nOne micro-batch; {' '.join(settings)}\n\n{table(SWEEP_HEADINGS, lines)}\n"
    for pair in PAIRS:
        text += f"- {pair}: {crossing([(rate, gain(rate, pair)[1]) for rate in options.rates])} as measured, "
        text += f"{crossing([(rate, predicted(rate, pair)) for rate in planned.fine(options.rates, 2 if options.quick else 1.1)])} as predicted.\n"
    return f"{text}\nThe description of the machine, with a free link:\n\n```toml\n{planned.description}```\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=["links", "sweep", "overlap", "outer"], type=names)
    parser.add_argument("--micro-batches", default=[1, 4, 8], type=lambda text: [int(word) for word in names(text)])
    parser.add_argument("--micro-batch", default=1, type=int, help="sequences")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="of a row in a round, with one micro-batch")
    parser.add_argument("--sweep-rounds", type=int, default=7)
    parser.add_argument("--sweep-steps", type=int, default=2)
    parser.add_argument("--rates", default=list(RATES), type=lambda text: [int(word) for word in names(text)], help="Mbit/s")
    parser.add_argument("--outer-every", default=32, type=int, help="steps of a copy by itself, 2 or more")
    parser.add_argument("--row", action="append", default=[], help="one more: NAME=section.key=value ...")
    parser.add_argument("--machine", type=pathlib.Path, help="a description of the two nodes; without it they are calibrated")
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round: whether all of it works")
    parser.add_argument("--output", help="also write the tables to this file")
    parser.add_argument("settings", nargs="*", help="section.key=value of the configuration")
    options = parser.parse_args()
    if options.outer_every < 2:
        parser.error(f"--outer-every {options.outer_every} leaves no step that is measured; use 2 or more, such as 32")
    options.rows = dict(ROWS) | dict(row.split("=", 1) for row in options.row)
    options.tries, options.description = 5, None
    if options.quick:
        options.micro_batches, options.rounds, options.tries, options.rates = [2], 1, 1, [200, 5000]
        options.sweep_rounds = options.sweep_steps = options.steps = 1
        options.outer_every = 4
    base = QUICK if options.quick else MODEL
    options.settings = [f"{key}={value}" for key, value in base.items()] + options.settings
    return options


def refuse(reason):
    say(f"compare.py: {reason}")
    sys.exit(77)


def main():
    options = arguments()
    missing = [name for name in ("ip", "tc", "mpirun", "unshare") if shutil.which(name) is None]
    if missing:
        refuse(f"not found: {', '.join(missing)}; tools/setup --test installs iproute2")
    if os.getuid() != 0:
        refuse("network namespaces and limits of links need root; run it as root")
    # The namespaces are removed then too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("compare.py: ended by a signal"))
    load = os.getloadavg()[0]
    text = f"{machine()}, load average {load:.1f} at the start; {shlex.join(sys.argv[1:])}\n"
    parts = {"links": lambda job: Links(job, options).text(), "sweep": lambda job: sweep_text(job, options),
             "overlap": lambda job: overlap_text(job, options, say), "outer": lambda job: outer_text(job, options, say)}  # fmt: skip
    try:
        with tempfile.TemporaryDirectory() as folder:
            options.folder = pathlib.Path(folder)
            for part in options.parts:
                if part != "links" and options.description is None:
                    options.description = options.machine.read_text() if options.machine else calibrated(options.folder)
                with Job([*options.settings, f"train.micro_batch={1 if part == 'sweep' else options.micro_batch}"]) as job:
                    text += "\n" + parts[part](job)
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    except NotAllowed as error:
        refuse(f"this machine allows no limited link between network namespaces: {error}")
    print(text)


if __name__ == "__main__":
    main()
