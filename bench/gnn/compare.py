"""Our graph networks beside those of SchNetPack and PyTorch Geometric, as installed and tuned.

    cmake --build build/release --target terrace_program bench_step_trainer bench_layouts_trainer
    .deps/python/bin/python bench/gnn/compare.py [--workloads NAME,..] [--precisions fp32] [--peers NAME,..] [--ranks 1,2] [--rounds 5]
                                                 [--molecules FILE.xyz] [--output FILE.md] [--processor-time] [--vectors avx2]

Steps on 256 molecules that a seed draws from those of tools/molecules, 32 a step, edges within 5 angstrom; networks.py says
how to install the peers. All of a workload stay resident and take turns; in each round everyone runs an epoch, which is eight
steps on the same molecules, and the ratio to a peer is taken within the round. The peers' batches, neighbours included, are
made before; ours are made while it trains. "Tuned" is what a careful user sets: MKL set to take its best kernels on any
CPU, and a malloc that keeps its memory and uses huge pages. On two ranks, ours and the peer's DistributedDataParallel (ddp)
have a thread each. The last table has geometric means over workloads without and with forces. With --processor-time, of one
rank and one core, as under taskset -c 0, a step takes as long as the processor time of its process.
"""
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(1, str(HERE.parent / "step"))
from comparison import argument_parser, machine, measured, ratios, spread, table, tuned_environment  # noqa: E402
from graph_workloads import BATCH, GRAPHS, NAMED  # noqa: E402
from networks import peers_of  # noqa: E402
from participant import Participant  # noqa: E402

WAYS = ("eager tuned", "compile tuned", "ddp tuned")
EPOCH = GRAPHS // BATCH


def labelled_molecules(source, folder):
    """A file of drawn molecules with energies and forces drawn as well, and the prefix of our dataset of it. Makes the source, which
    tools/molecules writes, where it is missing."""
    import ase.io
    import numpy as np

    if not source.exists():
        subprocess.run([ROOT / "tools/molecules", source], check=True)
    path, prefix = folder / "molecules.xyz", folder / "molecules"
    molecules = ase.io.read(source, ":")
    chosen = random.Random(1).sample(molecules, GRAPHS)
    draw = np.random.default_rng(1)
    for atoms in chosen:
        # Other names than energy and forces, which ASE takes for a calculator's.
        atoms.info = {"total_energy": float(-20 * len(atoms) + draw.normal())}
        atoms.arrays["force"] = draw.normal(size=(len(atoms), 3))
    ase.io.write(path, chosen)
    text = path.read_text().replace("total_energy=", "energy=").replace("force:R:3", "forces:R:3")
    ours = folder / "ours.xyz"
    ours.write_text(text)
    command = [ROOT / "build/release/terrace", "data", "prepare", ours, "--kind", "graphs", "--output", prefix]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path, prefix


def participants(name, workload, precision, ranks, data, options, folder):
    molecules, prefix = data
    config = folder / f"{name}_{precision}_{ranks}.toml"
    config.write_text(workload.config(prefix, precision, folder / "run"))
    programs = ROOT / "build/release/bench"
    own = [programs / "bench_step_trainer", config] if ranks == 1 else [programs / "bench_layouts_trainer", config, str(ranks)]
    all_of_them = [Participant("terrace", own)]
    tuned = tuned_environment(folder)
    for peer in peers_of(workload):
        for way in options.peers:
            how, _, setting = way.partition(" ")
            if (how == "ddp") != (ranks > 1):
                continue
            environment = {**(tuned if setting else {}), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
            environment["OMP_NUM_THREADS"] = str(max(1, len(os.sched_getaffinity(0)) // ranks))
            command = [sys.executable, HERE / "peer.py", workload.spec(), peer, how, setting or "installed", molecules]
            all_of_them.append(Participant(f"{peer} {way}", command, environment))
    return all_of_them


class Result:
    def __init__(self, name, workload, precision, ranks, runners):
        self.name, self.workload, self.precision, self.ranks = name, workload, precision, ranks
        self.ours, *peers = runners
        self.peers = sorted(peers, key=lambda peer: ratios(self.ours, peer)[1])
        self.ratio = ratios(self.ours, self.peers[0])
        # With two ranks the peer's memory would be that of one process and ours that of both.
        self.memory = self.ours.peak_bytes / self.peers[0].peak_bytes if ranks == 1 else math.nan

    def row(self):
        graphs = 1e3 * GRAPHS / statistics.median(min(times) for times in self.ours.rounds)
        others = ", ".join(f"{peer.name} {ratios(self.ours, peer)[1]:.2f}" for peer in self.peers[1:])
        losses = ", ".join(f"{runner.first_losses[0]:.3f}" for runner in [self.ours, *self.peers])
        memory = f"{self.memory:.2f}" if self.ranks == 1 else ""
        return [self.name, self.precision, str(self.ranks), f"{graphs:.1f}", self.peers[0].name, spread(*self.ratio), others,
                f"{self.ours.peak_bytes / 2**20:.0f}", memory, losses]  # fmt: skip


def text_of(results):
    rows = []
    for kind in dict.fromkeys((result.workload.forces, result.ranks) for result in results):
        own = [result for result in results if (result.workload.forces, result.ranks) == kind]
        memory = f"{statistics.geometric_mean(result.memory for result in own):.2f}" if kind[1] == 1 else ""
        ratio = statistics.geometric_mean(result.ratio[1] for result in own)
        rows.append(["with forces" if kind[0] else "energies", str(kind[1]), str(len(own)), f"{ratio:.2f}", memory])
    headings = ["", "type", "ranks", "graphs/s", "best peer", "ours to it (quartiles)", "ours to the others", "peak MiB",
                "to the best peer's", "losses"]  # fmt: skip
    return (f"{machine()}; {' '.join(sys.argv[1:])}\n\n{table(headings, [result.row() for result in results])}\n"
            f"{table(['', 'ranks', 'workloads', 'geometric mean to the best peer', 'memory'], rows)}")


def main():
    parser = argument_parser(__doc__, list(NAMED), WAYS, rounds=5, steps=EPOCH)
    parser.add_argument("--molecules", default=ROOT / "data/molecules.xyz", type=pathlib.Path, help="made where it is missing")
    parser.add_argument("--ranks", default=["1", "2"], type=lambda text: text.split(","))
    parser.add_argument("--processor-time", action="store_true", help="of one rank and one core")
    parser.set_defaults(precisions=["fp32"])
    options = parser.parse_args()
    if options.processor_time and options.ranks != ["1"]:
        parser.error("--processor-time is for --ranks 1")
    unknown = [name for name in options.workloads if name not in NAMED]
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(NAMED)}")
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = labelled_molecules(options.molecules, folder)
        for name in options.workloads:
            for precision in options.precisions:
                for ranks in map(int, options.ranks):
                    everyone = participants(name, NAMED[name], precision, ranks, data, options, folder)
                    if runners := measured(f"{name} {precision}, ranks {ranks}", everyone, options):
                        for runner in runners:
                            runner.rounds = [[sum(epoch)] for epoch in runner.rounds]
                        results.append(Result(name, NAMED[name], precision, ranks, runners))
                        print(" | ".join(results[-1].row()), file=sys.stderr, flush=True)
                    if options.output and results:
                        pathlib.Path(options.output).write_text(text_of(results))
    if not results:
        sys.exit("nothing was compared; are the peers installed, as networks.py says?")
    print(text_of(results))


if __name__ == "__main__":
    main()
