"""Our trainer beside PyTorch, eager and compiled, on one GPU: the same model, batch and optimizer in bf16.

    cmake --build BUILD --target bench_step_trainer
    python3 bench/gpu/compare.py [--workloads 124M,1B,3B] [--peers compile,eager] [--rounds 4] [--steps 5]
                                 [--build FOLDER] [--output FILE.md] [--traces FOLDER] [--kernels 15] [--device cuda]

One program after another has the GPU for itself. The table has the median of the rounds, of each of which the fastest step
counts. MFU is 6 FLOPs a weight of the products and token, and the half of the square that causal attention needs, against
the GPU's dense bf16 rate as its maker states it. A second table has the kernels that took most of one more step.
"""
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import gpu_workloads  # noqa: F401  (also makes bench/step importable)

from comparison import ROOT, argument_parser, corpus_in, ratios, spread, table
from participant import Failed, Participant
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
# Dense bf16 FLOP/s as the makers state them, by a part of the GPU's name; the first that fits counts.
PEAK_RATES = {"H100 PCIe": 756e12, "H100 NVL": 835e12, "H100": 989.4e12, "H200": 989.4e12, "B200": 2250e12,
              "A100": 312e12, "MI250X": 191.5e12, "MI300X": 1307e12}  # fmt: skip


def gpu_name():
    """The name of the first GPU; "" without one."""
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return found.stdout.splitlines()[0].strip() if found.returncode == 0 else ""


def peak_rate(name):
    return next((rate for part, rate in PEAK_RATES.items() if part in name), None)


def participants(workload, options, folder):
    shape = WORKLOADS[workload]
    prefix = corpus_in(folder, shape.vocabulary)
    config = folder / f"{workload}.toml"
    config.write_text(shape.config(prefix, "bf16", folder / "run"))
    trainer = options.build.resolve() / "bench/bench_step_trainer"
    libraries = {"LD_LIBRARY_PATH": options.library_path} if options.library_path else {}
    yield Participant("terrace", [trainer, config, f"train.device={options.device}"], libraries)
    for peer in options.peers:
        command = [sys.executable, HERE / "gpu_peer.py", workload, peer, f"{prefix}.bin", options.device]
        yield Participant(peer, command, {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")})


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


def run(runner, options, trace):
    """Runs all rounds of a participant; whether it got through."""
    try:
        runner.start(timeout=options.timeout)
        for _ in range(options.rounds):
            runner.go(options.steps, timeout=options.timeout)
        runner.profile(trace, timeout=options.timeout)
        runner.stop()
    except Failed as failure:
        runner.program.kill()
        print(failure, file=sys.stderr, flush=True)
        return False
    return True


def row(workload, runner, ours, peak):
    shape = WORKLOADS[workload]
    fastest = [min(times) for times in runner.rounds]
    milliseconds = statistics.median(fastest)
    ratio = spread(*ratios(ours, runner)) if ours and runner is not ours else ""
    return [workload, runner.name, f"{1e3 * shape.tokens / milliseconds:.0f}", f"{milliseconds:.2f}", ratio,
            f"{shape.flops / (milliseconds / 1e3) / peak:.3f}" if peak else "", f"{runner.gpu_bytes / 2**30:.2f}",
            f"{runner.first_step_seconds:.1f}", f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}"]  # fmt: skip


HEADINGS = ["model", "trainer", "tokens/s", "ms a step", "ours to it (quartiles)", "MFU", "GiB of the GPU", "first step s", "losses"]


def kernel_rows(workload, runner, trace, most):
    times = kernel_times(trace)
    whole = sum(milliseconds for _, milliseconds, _ in times)
    return [[workload, runner.name, name.replace("|", "\\|")[:100], f"{milliseconds:.2f}", f"{milliseconds / whole:.1%}", str(calls)]
            for name, milliseconds, calls in times[:most]]  # fmt: skip


def read_arguments():
    parser = argument_parser(__doc__, ["124M", "1B", "3B"], ["compile", "eager"], rounds=4, steps=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cuda", help="folder of the build with CUDA")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of our trainer, where it is not on the machine that built it")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--traces", type=pathlib.Path, help="keep the traces of one step of each in this folder")
    parser.add_argument("--kernels", type=int, default=15, help="of the table of kernels, for each trainer")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a start or a round")
    return parser.parse_args()


def main():
    options = read_arguments()
    name = gpu_name()
    rows, kernels, text, failed = [], [], "", []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        traces = options.traces or folder
        traces.mkdir(parents=True, exist_ok=True)
        for workload in options.workloads:
            ours = None
            for runner in participants(workload, options, folder):
                trace = traces.resolve() / f"{workload}_{runner.name}.json"
                print(f"{workload}: {runner.name}", file=sys.stderr, flush=True)
                if not run(runner, options, trace):
                    failed.append(f"{workload}: {runner.name}")
                    continue
                if runner.name == "terrace":
                    ours = runner
                rows.append(row(workload, runner, ours, peak_rate(name)))
                kernels += kernel_rows(workload, runner, trace, options.kernels)
                text = (f"{name or 'no GPU'}; {' '.join(sys.argv[1:])}\n\n{table(HEADINGS, rows)}\n"
                        + table(["model", "trainer", "kernel", "ms", "share", "calls"], kernels))  # fmt: skip
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    print(text)
    if failed:
        sys.exit(f"these ended early: {', '.join(failed)}; standard error above says why")


if __name__ == "__main__":
    main()
