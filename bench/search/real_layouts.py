"""A search over real runs on this machine, beside all of its points: ranks, micro-batch, recompute and sharding.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/search/real_layouts.py [--rounds 5] [--output FILE.md]

Calibrates the machine for each number of ranks, trains every point of bench/search/real_layouts.toml once, then searches with
a quarter as many runs, which predictions propose. The best of all runs and the three best that the search found then train in
turns, `--rounds` times each, and the table compares their medians. Takes about twenty minutes; nothing else should compute on
the machine. The data are those that ./demo prepares.
"""
import json
import pathlib
import shutil
import statistics
import sys

from running import ROOT, arguments_of, search, terrace, write_result

SPACE = pathlib.Path(__file__).resolve().parent / "real_layouts.toml"
FOLDER = ROOT / "runs/search_real"


def measured(found, number):
    """Seconds of a step of a new run of this trial."""
    run = FOLDER / "again" / str(number)
    shutil.rmtree(run, ignore_errors=True)
    terrace("train", ROOT / found["config"], "--set", f"checkpoint.folder={run}", "--ranks", found["devices"])
    return json.loads(terrace("report", run, "--json"))["step_seconds"]


def main():
    arguments = arguments_of(__doc__, "rounds", 5)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for ranks in (1, 2, 4):
        print(f"calibrating with {ranks} ranks", file=sys.stderr, flush=True)
        terrace("calibrate", "--quick", "--ranks", ranks, "--output", FOLDER / f"machine_{ranks}.toml")
    every_point = FOLDER / "every_point.toml"
    text = SPACE.read_text().replace('["simulate", "train"]', '"train"')
    every_point.write_text("\n".join(line for line in text.splitlines() if not line.startswith("machine ")))
    everything = search(every_point, FOLDER / "all", "--method", "exhaustive", "--best", 3)
    trials = everything["trials"]
    found = search(SPACE, FOLDER / "search", "--trials", trials // 4, "--best", 3)
    candidates = {f"all, place {i + 1}": one for i, one in enumerate(everything["best"])}
    candidates |= {f"search, place {i + 1}": one for i, one in enumerate(found["best"])}
    times = {name: [] for name in candidates}
    for number in range(arguments.rounds):
        for name, one in candidates.items():
            times[name].append(measured(one, number))
    median = {name: statistics.median(values) for name, values in times.items()}
    best = min(value for name, value in median.items() if name.startswith("all"))
    headings = ["found by", "ranks", "micro-batch", "recompute", "sharding", "in the search", "again, median", "spread", "of the best"]
    rows = []
    for name, one in candidates.items():
        values = one["parameters"]
        rows.append([name, str(values["ranks"]), str(values["train.micro_batch"]), values["train.recompute"], values["layout.sharding"],
                     f"{1000 * one['value']:.1f} ms", f"{1000 * median[name]:.1f} ms",
                     f"{100 * (max(times[name]) - min(times[name])) / median[name]:.0f}%", f"{median[name] / best:.3f}"])
    chosen = min(value for name, value in median.items() if name.startswith("search"))
    write_result(arguments, "A search over real runs", f"bench/search/real_layouts.py --rounds {arguments.rounds}",
                 f"All {trials} points, of which {everything['failed']} cannot run, and a search by predictions and "
                 f"{trials // 4} runs. The best of the search takes {chosen / best:.3f} of the time of the best of all, both "
                 "measured again in turns.", headings, rows)


if __name__ == "__main__":
    main()
