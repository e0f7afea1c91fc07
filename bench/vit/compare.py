"""Our vision transformer for weather beside the same network in PyTorch, eager and compiled, as installed and tuned.

    cmake --build build/release --target terrace_program bench_step_trainer bench_layouts_trainer
    .deps/python/bin/python bench/vit/compare.py [--workloads 48,3] [--seed 1 --shapes 0] [--first 1] [--precisions fp32,bf16]
                                                 [--ranks 1,2] [--peers NAME,...] [--rounds 5] [--steps 2] [--output FILE.md]
                                                 [--processor-time] [--vectors avx2]

"48" and "3" have so many variables on 32 x 64 places with patches of 2; a seed draws others. The network is ClimaX's with
timm's blocks, and network.py says how to install timm. All of a shape stay resident and take turns: in each round everyone
runs a few steps and the fastest counts; the ratio to a peer is taken within the round. "Tuned" is what a careful user sets:
fused attention over the variables, MKL set to take its best kernels on any CPU, and a malloc that keeps its memory and uses
huge pages. On two ranks, ours shards as zero3 beside FSDP2. The last table has, for each number of variables (few: at
most 4), precision and number of ranks, the geometric mean over shapes of our fields a second to those of the best peer, the
worst shape, and the mean of our peak memory to that peer's. With --processor-time, a step takes as long as the processor
time of its process, which other programs on the machine change little: for one rank on one core, as under taskset -c 0.
"""
import datetime
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(1, str(HERE.parent / "step"))
from comparison import argument_parser, machine, measured, names, ratios, spread, table, tuned_environment  # noqa: E402
from participant import Participant  # noqa: E402
from weather_shapes import LEAD_HOURS, NAMED, drawn  # noqa: E402

PEERS = ("eager", "eager tuned", "compile tuned", "fsdp2", "fsdp2 tuned")
TIMES, FEW = 32, 4
HEADINGS = ["", "variables, blocks, width, heads, grid, patch, fields a step", "type", "ranks", "fields/s", "best peer",
            "ours to it (quartiles)", "ours to the others", "peak MiB", "to the best peer's", "losses"]  # fmt: skip


def described(shape):
    return (f"{shape.variables}, {shape.layers}, {shape.width}, {shape.heads}, {shape.latitudes} x {shape.longitudes}, "
            f"{shape.patch}, {shape.batch}")  # fmt: skip


def prepared(shape, folder):
    """The prefix of prepared fields of random numbers."""
    import netCDF4

    prefix = folder / f"fields_{shape.variables}_{shape.latitudes}_{shape.longitudes}"
    if prefix.with_suffix(".json").exists():
        return prefix
    source, draw = folder / "source.nc", np.random.default_rng(1)
    axes = {
        "time": (np.arange(TIMES) * LEAD_HOURS, "hours since 2000-01-01"),
        "latitude": ((np.arange(shape.latitudes) + 0.5) * 180 / shape.latitudes - 90, "degrees_north"),
        "longitude": (np.arange(shape.longitudes) * 360 / shape.longitudes, "degrees_east"),
    }
    with netCDF4.Dataset(source, "w") as file:
        for name, (values, units) in axes.items():
            file.createDimension(name, len(values))
            file.createVariable(name, "f8", (name,))[:] = values
            file[name].units = units
        for name in shape.names():
            file.createVariable(name, "f4", tuple(axes))[:] = draw.standard_normal([len(values) for values, _ in axes.values()])
            file[name].units = "K"
    last = datetime.date(2000, 1, 1) + datetime.timedelta(hours=TIMES * LEAD_HOURS)
    command = [ROOT / "build/release/terrace", "data", "prepare", source, "--kind", "fields", "--output", prefix]
    subprocess.run([*command, "--train", "2000-01-01", str(last)], check=True, stdout=subprocess.DEVNULL)
    source.unlink()
    return prefix


def participants(name, shape, precision, ranks, peers, folder):
    config = folder / f"{name}_{precision}_{ranks}.toml"
    config.write_text(shape.config(prepared(shape, folder), precision, folder / "run"))
    programs = ROOT / "build/release/bench"
    if ranks == 1:
        ours = Participant("terrace", [programs / "bench_step_trainer", config])
    else:
        ours = Participant("terrace", [programs / "bench_layouts_trainer", config, str(ranks), "layout.sharding=zero3"])
    all_of_them = [ours]
    tuned = tuned_environment(folder)
    for peer in peers:
        how, _, setting = peer.partition(" ")
        if (how == "fsdp2") != (ranks > 1):
            continue
        environment = {**(tuned if setting else {}), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        environment["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // ranks))
        command = [sys.executable, HERE / "peer.py", shape.spec(), precision, how, setting or "installed"]
        all_of_them.append(Participant(peer, command, environment))
    return all_of_them


class Result:
    """What came of one shape in one precision on so many ranks."""

    def __init__(self, name, shape, precision, ranks, runners):
        self.name, self.shape, self.precision, self.ranks = name, shape, precision, ranks
        self.ours, *peers = runners
        self.peers = sorted(peers, key=lambda peer: ratios(self.ours, peer)[1])
        self.ratio = ratios(self.ours, self.peers[0])
        # With two ranks the peer's memory would be that of one process and ours that of both.
        self.memory = self.ours.peak_bytes / self.peers[0].peak_bytes if ranks == 1 else math.nan

    def group(self):
        return "few" if self.shape.variables <= FEW else "many", self.precision, self.ranks

    def row(self):
        fields = 1e3 * self.shape.batch / statistics.median(min(times) for times in self.ours.rounds)
        others = ", ".join(f"{peer.name} {ratios(self.ours, peer)[1]:.2f}" for peer in self.peers[1:])
        losses = ", ".join(f"{runner.first_losses[0]:.3f}" for runner in [self.ours, *self.peers])
        memory = f"{self.memory:.2f}" if self.ranks == 1 else ""
        return [self.name, described(self.shape), self.precision, str(self.ranks), f"{fields:.2f}", self.peers[0].name,
                spread(*self.ratio), others, f"{self.ours.peak_bytes / 2**20:.0f}", memory, losses]  # fmt: skip


def summary(results):
    rows = []
    for group in dict.fromkeys(result.group() for result in results):
        own = [result for result in results if result.group() == group]
        worst = min(own, key=lambda result: result.ratio[1])
        variables, precision, ranks = group
        memory = f"{statistics.mean(result.memory for result in own):.2f}" if ranks == 1 else ""
        rows.append([variables, precision, str(ranks), str(len(own)),
                     f"{statistics.geometric_mean(result.ratio[1] for result in own):.2f}",
                     f"{worst.ratio[1]:.2f} ({worst.name})", memory])  # fmt: skip
    return table(["variables", "type", "ranks", "shapes", "geometric mean to the best peer", "worst", "memory, mean"], rows)


def text_of(results):
    return f"{machine()}; {' '.join(sys.argv[1:])}\n\n{summary(results)}\n{table(HEADINGS, [result.row() for result in results])}"


def main():
    parser = argument_parser(__doc__, ["48", "3"], PEERS, rounds=5, steps=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=0, help="so many that the seed draws")
    parser.add_argument("--first", type=int, default=1, help="leave out those that the seed draws before this one")
    parser.add_argument("--ranks", default=["1", "2"], type=names)
    parser.add_argument("--processor-time", action="store_true", help="of one rank on one core")
    options = parser.parse_args()
    unknown = [name for name in options.workloads if name not in NAMED] + [peer for peer in options.peers if peer not in PEERS]
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there are the workloads {', '.join(NAMED)} and the peers {', '.join(PEERS)}")
    if options.processor_time and (options.ranks != ["1"] or len(os.sched_getaffinity(0)) > 1):
        parser.error("--processor-time is for --ranks 1 and one core; run under taskset -c 0")
    shapes = {name: NAMED[name] for name in options.workloads}
    shapes.update(list(drawn(options.seed, options.shapes).items())[options.first - 1:])
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    results = []
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as folder:
            for precision in options.precisions:
                for ranks in map(int, options.ranks):
                    even = shape.on_ranks(ranks)
                    everyone = participants(name, even, precision, ranks, options.peers, pathlib.Path(folder))
                    if runners := measured(f"{name} {precision}, ranks {ranks}", everyone, options):
                        results.append(Result(name, even, precision, ranks, runners))
                        print(" | ".join(results[-1].row()), file=sys.stderr, flush=True)
                    if options.output and results:
                        pathlib.Path(options.output).write_text(text_of(results))
    if not results:
        sys.exit("nothing was compared; is timm installed, as network.py says?")
    print(text_of(results))


if __name__ == "__main__":
    main()
