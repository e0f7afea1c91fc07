"""Steps beside busy processes, by how idle threads wait: as terrace chooses, asleep at once, or looking for the next loop for some
turns (GOMP_SPINCOUNT).

    .deps/python/bin/python bench/step/shared_cores.py [--build build/release] [--rounds 3] [--busy 0,1,3] [--ranks one,threads,mpi]
                                                       [--workloads text,winds] [--waits own,passive,2000,300000] [--output FILE.md]

The ways of waiting take turns in each round. Each busy process is a session of its own, as another user's program is; --busy counts
them a core. A figure is the median over rounds of the median time of a step; the last column is our choice to the best other.
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
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from comparison import machine, table  # noqa: E402

CORES = len(os.sched_getaffinity(0))
STEPS = {"text": 40, "winds": 12, "molecules": 30}
CONFIGS = {"text": "tiny", "winds": "navy_winds", "molecules": "molecules"}
# Ends with its parent, also where that is killed.
BUSY_PROCESS = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def prepare(terrace, workload, folder):
    """The data of a configuration in configs/ and the settings that point to it."""
    if workload == "text":
        run(terrace, "data", "prepare", ROOT / "docs", "--include", "*.md", "--output", folder / "corpus", "--train-tokenizer",
            folder / "tokenizer.model", "--vocabulary", 2048)  # fmt: skip
        return [f'data.train=["{folder}/corpus"]', f"data.tokenizer={folder}/tokenizer.model"]
    if workload == "winds":
        run(terrace, "data", "prepare", ROOT / ".deps/winds/monthly_navy_winds.cdf", "--kind", "fields", "--output", folder / "winds",
            "--train", 1982, 1990, "--test", 1991, 1992)  # fmt: skip
        return [f"data.fields={folder}/winds"]
    run(terrace, "data", "prepare", ROOT / ".deps/molecules.xyz", "--kind", "graphs", "--output", folder / "molecules", "--labels",
        "energy,forces")  # fmt: skip
    return [f'data.train=["{folder}/molecules"]']


def step_milliseconds(terrace, workload, settings, ranks, wait, folder):
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    if wait == "passive":
        environment["OMP_WAIT_POLICY"] = "passive"
    elif wait != "own":
        environment["GOMP_SPINCOUNT"] = wait
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"] if ranks == "mpi" else []
    settings = [*settings, f"train.steps={STEPS[workload]}", f"checkpoint.folder={folder}/run", "train.evaluate_every=1000",
                "optimizer.warmup_steps=2", "checkpoint.every=0", *(["train.micro_batch=8"] if ranks != "one" else [])]  # fmt: skip
    shutil.rmtree(folder / "run", ignore_errors=True)
    run(*launcher, terrace, "train", ROOT / f"configs/{CONFIGS[workload]}.toml", "--no-doctor", *(["--ranks", "2"] if ranks == "threads" else []),
        *(word for setting in settings for word in ("--set", setting)), env=environment)  # fmt: skip
    with open(folder / "run/metrics.jsonl") as file:
        seconds = [record["step_seconds"] for record in map(json.loads, file) if "step_seconds" in record]
    return 1e3 * statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", default="0,1,3")
    parser.add_argument("--ranks", default="one,threads,mpi")
    parser.add_argument("--workloads", default="text,winds")
    parser.add_argument("--waits", default="own,passive,2000,300000")
    parser.add_argument("--output")
    options = parser.parse_args()
    terrace = ROOT / options.build / "terrace"
    waits = options.waits.split(",")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for workload in options.workloads.split(","):
            settings = prepare(terrace, workload, folder)
            for ranks in options.ranks.split(","):
                for busy in map(int, options.busy.split(",")):
                    others = [subprocess.Popen([sys.executable, "-c", BUSY_PROCESS], start_new_session=True)
                              for _ in range(busy * CORES)]  # fmt: skip
                    try:
                        rounds = [[step_milliseconds(terrace, workload, settings, ranks, wait, folder) for wait in waits]
                                  for _ in range(options.rounds)]  # fmt: skip
                    finally:
                        for other in others:
                            other.kill()
                    times = [statistics.median(times) for times in zip(*rounds)]
                    to_best = statistics.median(each[0] / min(each[1:]) for each in rounds)
                    rows.append([workload, ranks, str(busy), *(f"{time:.1f}" for time in times), f"{to_best:.2f}"])
                    print(*rows[-1], sep="  ", flush=True)
    text = machine() + "\n\n" + table(["workload", "ranks", "busy processes a core", *(f"{wait}, ms" for wait in waits), "own to the best"], rows)
    print(text)
    if options.output:
        pathlib.Path(options.output).write_text(text)


if __name__ == "__main__":
    main()
