"""Our vision transformer for weather and our graph networks beside PyTorch's, eager and compiled, on one GPU.

    bench/gpu/families.py --prepare FOLDER [--build BUILD] [--molecules FILE.xyz] [--graphs 1024]
    bench/gpu/families.py --data FOLDER [--workloads vit-115m,painn,..] [--peers eager,compile] [--rounds 4] [--steps 5]
                          [--build BUILD] [--library-path PATH] [--output FILE.md] [--traces FOLDER] [--kernels 15] [--device cuda]

The first call needs BUILD/terrace (build/cuda/terrace, if not given) and bench/gnn/requirements.txt; it writes a dataset of molecules
and those parts of SchNetPack and vesin that the peers import, 3 MB in all. The second call is for the machine with the GPU, whose Python needs torch,
torch_geometric, timm and scipy; it makes fields of random numbers with BUILD/terrace.

The transformer trains in bf16, which is autocast in the peers; the graph networks train in fp32, without TF32. The peers' batches,
neighbours included, are in the memory of the GPU before a step; ours come from files while it trains. Of a transformer the fastest
step of a round counts; a round of a graph network is an epoch, of which the mean counts. "GPU busy" is the time of all kernels of one
step over that of a step: far below 1, a step waits for launches or for data. MFU counts what the peer computes.
"""
import dataclasses
import datetime
import importlib.util
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import numpy as np

from one_gpu import ROOT, compare, gpu_arguments, gpu_name, libraries, milliseconds_of, our_trainer, peak_rate, peer

BENCH = ROOT / "bench"
sys.path[2:2] = [str(BENCH / "gnn"), str(BENCH / "vit")]
import graph_workloads  # noqa: E402
import weather_shapes  # noqa: E402
from comparison import ratios, spread  # noqa: E402
from graph_workloads import Workload  # noqa: E402
from networks import peers_of  # noqa: E402  (also makes bench/gnn's packages importable)
from weather_shapes import LEAD_HOURS, Shape  # noqa: E402

TIMES = 32  # of the fields
HEADINGS = ["model", "trainer", "samples/s", "ms a step", "ours to it (quartiles)", "MFU", "GPU busy", "GiB of the GPU", "first step s",
            "losses"]  # fmt: skip
# Modules that importing SchNetPack's networks reads beside properties.py; its own __init__ imports what reads datasets
# and trains too.
SCHNETPACK = ("nn", "representation", "utils")


@dataclasses.dataclass(frozen=True)
class Weather:
    shape: Shape

    @property
    def samples(self):
        return self.shape.batch

    @property
    def flops(self):
        return self.shape.batch * self.shape.flops

    def steps(self, _):
        return None

    def participants(self, name, options, folder):
        config = folder / f"{name}.toml"
        config.write_text(self.shape.config(random_fields(self.shape, options, folder), "bf16", folder / "run"))
        yield our_trainer(options, config)
        for how in options.peers:
            command = [BENCH / "vit/peer.py", self.shape.spec(), "bf16", how, "tuned", "--device", options.device]
            yield peer(how, command, folder)


@dataclasses.dataclass(frozen=True)
class Graphs:
    network: Workload
    samples: int  # graphs of a step
    flops: int = 0  # not counted

    def steps(self, data):
        """Of an epoch."""
        return json.loads((data / "molecules.json").read_text())["structures"] // self.samples

    def participants(self, name, options, folder):
        molecules = options.data.resolve() / "molecules"
        config = folder / f"{name}.toml"
        config.write_text(self.network.config(molecules, "fp32", folder / "run"))
        yield our_trainer(options, config, f"train.global_batch={self.samples}")
        packages = options.data.resolve() / "peers"
        path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
        for library in peers_of(self.network):
            if library == "schnetpack" and not (packages / library).exists():
                continue
            for how in options.peers:
                # Compiled, they have no derivative of forces.
                if how == "compile" and self.network.forces:
                    continue
                command = [BENCH / "gnn/peer.py", self.network.spec(), library, how, "installed", molecules,
                           "--batch", str(self.samples), "--device", options.device]  # fmt: skip
                yield peer(f"{library} {how}", command, folder, {"PYTHONPATH": path})


WORKLOADS = {
    # The smallest model of ORBIT (configs/vit-115m.toml) and its micro-batch.
    "vit-115m": Weather(Shape(variables=48, layers=8, width=1024, heads=16, batch=8, latitudes=128, longitudes=256, patch=4)),
    **{name: Graphs(network, 256) for name, network in graph_workloads.NAMED.items()},
    # The tiny workloads are for a test on a CPU.
    "vit-tiny": Weather(weather_shapes.NAMED["small"]),
    **{f"{conv}-tiny": Graphs(Workload(conv, 8, 2, radial=4), 4) for conv in ("schnet", "painn", "pna")},
    "painn-forces-tiny": Graphs(Workload("painn", 8, 2, radial=4, forces=True), 4),
    "egnn-tiny": Graphs(Workload("egnn", 8, 2, cap=4, reading="hydragnn"), 4),
}
DEFAULT = ["vit-115m", "painn", "painn-forces", "pna", "schnet", "schnet-forces", "egnn", "egnn-forces"]


def prepare_data(terrace, source, kind, prefix, *settings, environment=None):
    command = [terrace, "data", "prepare", source, "--kind", kind, "--output", prefix, *settings]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})


def random_fields(shape, options, folder):
    """The prefix of prepared fields of random numbers, from a file of NetCDF's classic format, which needs no library of its own."""
    from scipy.io import netcdf_file

    source, prefix, draw = folder / "source.nc", folder / f"fields_{shape.variables}_{shape.latitudes}", np.random.default_rng(1)
    axes = {
        "time": (np.arange(TIMES) * float(LEAD_HOURS), "hours since 2000-01-01"),
        "latitude": ((np.arange(shape.latitudes) + 0.5) * 180 / shape.latitudes - 90, "degrees_north"),
        "longitude": (np.arange(shape.longitudes) * 360 / shape.longitudes, "degrees_east"),
    }
    sizes = [len(values) for values, _ in axes.values()]
    with netcdf_file(source, "w", version=2) as file:
        for name, (values, units) in axes.items():
            file.createDimension(name, len(values))
            variable = file.createVariable(name, "d", (name,))
            variable[:], variable.units = values, units
        for name in shape.names():
            variable = file.createVariable(name, "f", tuple(axes))
            variable[:], variable.units = draw.standard_normal(sizes, dtype=np.float32), "K"
    last = datetime.date(2000, 1, 1) + datetime.timedelta(hours=TIMES * LEAD_HOURS)
    prepare_data(options.build.resolve() / "terrace", source, "fields", prefix, "--train", "2000-01-01", str(last),
                 environment=libraries(options))  # fmt: skip
    source.unlink()
    return prefix


def labelled_molecules(source, target, count):
    """Writes drawn molecules of an .xyz file with energies and forces drawn as well; makes the source, which tools/molecules writes,
    where it is missing."""
    if not source.exists():
        subprocess.run([ROOT / "tools/molecules", source], check=True)
    lines, molecules = source.read_text().splitlines(), []
    while lines:
        atoms = int(lines[0])
        molecules.append(lines[2:2 + atoms])
        del lines[:2 + atoms]
    draw = np.random.default_rng(1)
    with target.open("w") as file:
        for atoms in random.Random(1).sample(molecules, count):
            energy = -20 * len(atoms) + draw.normal()
            file.write(f"{len(atoms)}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={energy:.6f}\n")
            for atom, force in zip(atoms, draw.normal(size=(len(atoms), 3))):
                file.write(f"{atom} {' '.join(f'{component:.6f}' for component in force)}\n")


def package(name):
    """The folder of an installed package; None without it."""
    spec = importlib.util.find_spec(name)
    return spec and pathlib.Path(spec.origin).parent


def copy_packages(folder):
    """What the graph networks' peers import, without what only the packages' other users need."""
    without = shutil.ignore_patterns("__pycache__", "include", "metatomic")
    vesin, schnetpack = package("vesin"), package("schnetpack")
    if not vesin:
        sys.exit("families.py: vesin is not installed; bench/gnn/networks.py says how")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(vesin, folder / "vesin", ignore=without)
    for description in vesin.parent.glob("vesin-*.dist-info"):  # it asks for its version
        shutil.copytree(description, folder / description.name)
    if not schnetpack:
        print("SchNetPack is not installed, so PaiNN will have no peer; bench/gnn/networks.py says how", file=sys.stderr)
        return
    for part in SCHNETPACK:
        shutil.copytree(schnetpack / part, folder / "schnetpack" / part, ignore=without)
    shutil.copy(schnetpack / "properties.py", folder / "schnetpack")
    (folder / "schnetpack/__init__.py").write_text("from schnetpack import nn, properties, representation\n")


def prepare(folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    copy_packages(folder / "peers")
    labelled = folder / "labelled.xyz"
    labelled_molecules(options.molecules, labelled, options.graphs)
    prepare_data(options.build.resolve() / "terrace", labelled, "graphs", folder / "molecules", "--overwrite")
    labelled.unlink()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {options.graphs} molecules, {size / 2**20:.1f} MiB")


def row(name, runner, ours, times, device, peak):
    workload = WORKLOADS[name]
    if isinstance(workload, Graphs):
        runner.rounds = [[statistics.mean(epoch)] for epoch in runner.rounds]
    milliseconds = milliseconds_of(runner)
    ratio = spread(*ratios(ours, runner)) if ours and runner is not ours else ""
    busy = f"{sum(taken for _, taken, _ in times) / milliseconds:.2f}" if device == "cuda" else ""
    return [name, runner.name, f"{1e3 * workload.samples / milliseconds:.1f}", f"{milliseconds:.2f}", ratio,
            f"{workload.flops / (milliseconds / 1e3) / peak:.3f}" if peak and workload.flops else "", busy,
            f"{runner.gpu_bytes / 2**30:.2f}", f"{runner.first_step_seconds:.1f}",
            f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}"]  # fmt: skip


def read_arguments():
    parser = gpu_arguments(__doc__, DEFAULT, ["eager", "compile"], rounds=4, steps=5)
    parser.add_argument("--prepare", type=pathlib.Path, metavar="FOLDER", help="write there what the other machine needs, and end")
    parser.add_argument("--data", type=pathlib.Path, metavar="FOLDER", help="what --prepare wrote")
    parser.add_argument("--molecules", default=ROOT / "data/molecules.xyz", type=pathlib.Path, help="made where it is missing")
    parser.add_argument("--graphs", type=int, default=1024, help="of the data")
    options = parser.parse_args()
    if unknown := [name for name in options.workloads if name not in WORKLOADS]:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    if not options.prepare and not options.data:
        parser.error("give --prepare FOLDER, and then --data FOLDER")
    return options


def main():
    options = read_arguments()
    if options.prepare:
        prepare(options.prepare, options)
        return
    peak = peak_rate(gpu_name())
    compare(options, HEADINGS, lambda name, folder: WORKLOADS[name].participants(name, options, folder),
            lambda name, runner, ours, times: row(name, runner, ours, times, options.device, peak),
            steps_of=lambda name: WORKLOADS[name].steps(options.data))  # fmt: skip


if __name__ == "__main__":
    main()
