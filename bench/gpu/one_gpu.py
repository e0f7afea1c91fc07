"""What the comparisons of trainers on one GPU have in common: options, runs one after another, traces and tables."""
import collections
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "step"))
from comparison import ROOT, argument_parser, table  # noqa: E402
from participant import Failed, Participant  # noqa: E402

sys.path.append(str(ROOT / "tools"))
from machine_gpus import gpus  # noqa: E402

# Dense bf16 FLOP/s as the makers state them, by a part of the GPU's name; the first that fits counts.
PEAK_RATES = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989.4e12, "H200": 989.4e12, "B200": 2250e12,
              "A100": 312e12, "MI250X": 191.5e12, "MI300X": 1307e12}  # fmt: skip
KERNEL_HEADINGS = ["model", "trainer", "kernel", "ms", "share", "calls"]


def gpu_name():
    """The name of the first GPU; "" without one."""
    return gpus()[0].name if gpus() else ""


def peak_rate(name):
    return next((rate for part, rate in PEAK_RATES.items() if part in name), None)


def gpu_arguments(description, workloads, peers, rounds, steps):
    parser = argument_parser(description, workloads, peers, rounds, steps)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda", help="folder of the build for GPUs")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of our trainer, where it is not on the machine that built it")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--traces", type=pathlib.Path, help="keep the traces of one step of each in this folder")
    parser.add_argument("--kernels", type=int, default=15, help="of the table of kernels, for each trainer")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a start or a round")
    return parser


def libraries(options):
    """The environment of our programs, beside what they inherit."""
    return {"LD_LIBRARY_PATH": options.library_path} if options.library_path else {}


def our_trainer(options, config, *settings):
    trainer = options.build.resolve() / "bench/bench_step_trainer"
    return Participant("terrace", [trainer, config, f"train.device={options.device}", *settings], libraries(options))


def peer(name, command, folder, environment=None):
    compiled = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    return Participant(name, [sys.executable, *command], {**compiled, **(environment or {})})


def kernel_times(trace):
    """Milliseconds and calls by kernel of a trace of torch's profiler; without a GPU, of operations on the CPU."""
    events = json.loads(pathlib.Path(trace).read_text())["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in timed if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    found = collections.defaultdict(lambda: [0.0, 0])
    for event in kernels or [event for event in timed if event.get("cat") == "cpu_op"]:
        found[event["name"]][0] += event["dur"] / 1e3
        found[event["name"]][1] += 1
    return sorted(((name, milliseconds, calls) for name, (milliseconds, calls) in found.items()), key=lambda row: -row[1])


def kernel_rows(workload, runner, times, most):
    whole = sum(milliseconds for _, milliseconds, _ in times)
    return [[workload, runner.name, name.replace("|", "\\|")[:100], f"{milliseconds:.2f}", f"{milliseconds / whole:.1%}", str(calls)]
            for name, milliseconds, calls in times[:most]]  # fmt: skip


def milliseconds_of(runner):
    """Of a step: the median of the rounds, of each of which the fastest counts."""
    return statistics.median(min(times) for times in runner.rounds)


def run(runner, options, steps, trace):
    """Runs all rounds of a participant; whether it got through."""
    try:
        runner.start(timeout=options.timeout)
        for _ in range(options.rounds):
            runner.go(steps, timeout=options.timeout)
        runner.profile(trace, timeout=options.timeout)
        runner.stop()
    except Failed as failure:
        runner.program.kill()
        print(failure, file=sys.stderr, flush=True)
        return False
    return True


def compare(options, headings, participants, row, steps_of=lambda workload: None):
    """Runs all workloads, and writes the tables so far after each trainer. `participants(workload, folder)` are ours and the
    peers, `row(workload, runner, ours, times)` is a row under `headings` with the kernels' `times`, and `steps_of(workload)`
    are the steps of a round, if not those of the options."""
    rows, kernels, text, failed = [], [], "", []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        traces = options.traces or folder
        traces.mkdir(parents=True, exist_ok=True)
        for workload in options.workloads:
            ours = None
            for runner in participants(workload, folder):
                trace = traces.resolve() / f"{workload}_{runner.name.replace(' ', '_')}.json"
                print(f"{workload}: {runner.name}", file=sys.stderr, flush=True)
                if not run(runner, options, steps_of(workload) or options.steps, trace):
                    failed.append(f"{workload}: {runner.name}")
                    continue
                if runner.name == "terrace":
                    ours = runner
                times = kernel_times(trace)
                rows.append(row(workload, runner, ours, times))
                kernels += kernel_rows(workload, runner, times, options.kernels)
                text = (f"{gpu_name() or 'no GPU'}; {' '.join(sys.argv[1:])}\n\n{table(headings, rows)}\n"
                        + table(KERNEL_HEADINGS, kernels))  # fmt: skip
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    print(text)
    if failed:
        sys.exit(f"these ended early: {', '.join(failed)}; standard error above says why")
