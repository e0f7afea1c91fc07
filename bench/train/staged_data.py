"""Steps of a run whose data come from a source of 20 MB/s through copies on a disk of each node, beside steps from memory.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/train/staged_data.py [--rounds 5] [--steps 240] [--output FILE.md]

Two nodes are network namespaces with a rank each. The source is a file system on a loop device, mounted again for each run so
that nothing of it is in memory; the control group of the run may read 20 MB/s of that device (blkio.throttle). Three runs take
turns in each round: from memory (the files in /dev/shm), staged, and from the source without staging. A step counts as `filled`
from the step on after which no byte came from the source. Needs root, control groups of version 1 with blkio, and loop devices;
exits with 77 where one is missing.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/house"))
from namespaces import Namespaces, NotAllowed  # noqa: E402

TERRACE = ROOT / "build/release/terrace"
RATE = 20_000_000  # bytes a second
VARIABLES, TIMES, LATITUDES, LONGITUDES = 16, 480, 32, 64
CONFIG = """[model]
family = "vit"
variables = [{variables}]
grid = [{latitudes}, {longitudes}]
patch = 8
layers = 1
width = 64
heads = 4
[data]
fields = "{data}/fields"
leads = ["6h"]
{stage}
[train]
global_batch = 8
steps = {steps}
threads = 1
device = "cpu"
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "{folder}"
"""
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_WAIT_POLICY": "passive",
                            "OMPI_MCA_mpi_yield_when_idle": "1"}  # fmt: skip


def call(*command, **more):
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if run.returncode != 0:
        raise NotAllowed(f"{' '.join(map(str, command))}: {run.stderr.strip()}")
    return run.stdout.strip()


def prepare(folder):
    import netCDF4
    import numpy

    random = numpy.random.default_rng(1)
    with netCDF4.Dataset(folder / "in.nc", "w") as file:
        for name, values, units in (("time", numpy.arange(TIMES) * 6.0, "hours since 2000-01-01 00:00:00"),
                                    ("lat", numpy.linspace(-87, 87, LATITUDES), "degrees_north"),
                                    ("lon", numpy.arange(LONGITUDES) * 360 / LONGITUDES, "degrees_east")):  # fmt: skip
            file.createDimension(name, len(values))
            axis = file.createVariable(name, "f8", (name,))
            axis[:] = values
            axis.units = units
        for number in range(VARIABLES):
            variable = file.createVariable(f"v{number}", "f4", ("time", "lat", "lon"))
            variable.units = "K"
            variable[:] = random.standard_normal((TIMES, LATITUDES, LONGITUDES), dtype="f4")
    call(TERRACE, "data", "prepare", "--kind", "fields", folder / "in.nc", "--output", folder / "fields", "--train",
         "2000-01-01", "2000-12-31")  # fmt: skip
    (folder / "in.nc").unlink()


class Source:
    """The folder on a file system of its own, whose device a control group may read at RATE."""

    def __init__(self, folder, scratch):
        self.image, self.mount = scratch / "image", scratch / "source"
        size = sum(path.stat().st_size for path in folder.iterdir())
        with open(self.image, "wb") as image:
            image.truncate(size + size // 4 + (16 << 20))
        call("mkfs.ext4", "-q", "-F", self.image)
        self.mount.mkdir()
        self.device = call("losetup", "-f", "--show", self.image)
        self.group = pathlib.Path("/sys/fs/cgroup/blkio") / f"terrace_{os.getpid()}"
        call("mount", self.device, self.mount)
        for path in folder.iterdir():
            shutil.copy(path, self.mount)
        self.group.mkdir()
        number = call("lsblk", "-no", "MAJ:MIN", self.device).split()[0]
        (self.group / "blkio.throttle.read_bps_device").write_text(f"{number} {RATE}\n")

    def forget(self):
        """Nothing of the source is in memory afterwards."""
        call("umount", self.mount)
        call("sync")
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        call("mount", self.device, self.mount)

    def remove(self):
        subprocess.run(["umount", str(self.mount)], capture_output=True)
        subprocess.run(["losetup", "-d", self.device], capture_output=True)
        if self.group.exists():
            self.group.rmdir()


def train(nodes, source, scratch, name, data, stage, steps):
    folder = scratch / f"run_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    config = scratch / f"{name}.toml"
    config.write_text(CONFIG.format(variables=", ".join(f'"v{i}"' for i in range(VARIABLES)), latitudes=LATITUDES,
                                    longitudes=LONGITUDES, data=data, stage=stage, steps=steps, folder=folder))  # fmt: skip
    source.forget()
    # The run joins the control group by itself, before it becomes mpirun.
    command = ["sh", "-c", f"echo $$ > {source.group}/cgroup.procs && exec \"$@\"", "sh",
               *nodes.mpi_command([TERRACE, "train", config])]  # fmt: skip
    run = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]


def filled_from(lines):
    """The number of steps until no byte came from the source any more."""
    return sum(1 for line in lines if line["source_read_bytes"] < lines[-1]["source_read_bytes"])


def milliseconds(values):
    return f"{1e3 * statistics.median(values):.1f}"


def measure(arguments, nodes, source, memory, scratch):
    rows, ratios = [], []
    for number in range(arguments.rounds):
        found = {}
        for name, data, stage in (("memory", memory, ""), ("staged", source.mount, f'stage = "{scratch}/disk"'),
                                  ("source", source.mount, "")):  # fmt: skip
            found[name] = train(nodes, source, scratch, name, data, stage, arguments.steps)
        if [line["loss"] for line in found["staged"]] != [line["loss"] for line in found["memory"]]:
            sys.exit("the staged run has other losses than the run from memory")
        filled = filled_from(found["staged"]) + 3
        if filled > arguments.steps // 2:
            sys.exit(f"the window was filled at step {filled} of {arguments.steps} only; give more --steps")
        seconds = {name: [line["step_seconds"] for line in lines] for name, lines in found.items()}
        ratios.append(statistics.median(seconds["staged"][filled:]) / statistics.median(seconds["memory"][filled:]))
        last = found["staged"][-1]
        rows.append([number + 1, filled, milliseconds(seconds["memory"][filled:]), milliseconds(seconds["staged"][:filled]),
                     milliseconds(seconds["staged"][filled:]), f"{ratios[-1]:.3f}", milliseconds(seconds["source"][:filled]),
                     f"{last['stage_copied_bytes'] / 1e6:.0f}", f"{last['source_read_bytes'] / 1e6:.0f}"])  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    heading = ["round", "filled at step", "from memory, ms", "staged until then, ms", "staged, filled, ms", "ratio",
               "from the source in as many steps, ms", "MB copied on a node", "MB read from the source meanwhile"]  # fmt: skip
    table = ["| " + " | ".join(heading) + " |", "|" + " --- |" * len(heading)]
    table += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(table) + f"\n\nMedian of the ratios: {statistics.median(ratios):.3f}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    source = None
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        scratch, memory = pathlib.Path(disk), pathlib.Path(memory)
        try:
            prepare(memory)
            source = Source(memory, scratch)
            with Namespaces() as nodes:
                text = measure(arguments, nodes, source, memory, scratch)
        except (NotAllowed, OSError) as error:
            print(f"staged_data.py: skipped, this machine does not allow it: {error}")
            return 77
        finally:
            if source is not None:
                source.remove()
    print(text)
    if arguments.output:
        arguments.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
