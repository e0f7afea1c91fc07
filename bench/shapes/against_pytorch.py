"""Our trainer beside tuned PyTorch, eager and compiled, at shapes drawn by a seed (shapes.py).

    cmake --build build/release --target bench_step_trainer
    .deps/python/bin/python bench/shapes/against_pytorch.py [--seed 1] [--shapes 24] [--first 1] [--precisions fp32,bf16]
                                                            [--peers NAME,...] [--rounds 3] [--steps 2] [--output FILE.md]
                                                            [--vectors avx2] [--processor-time]

All of a shape stay resident and take turns, as in bench/step/compare.py. With --vectors avx2 all are held to the instructions of
processors without AVX-512; there PyTorch's steps in bf16 take minutes, and --peers "own fp32" --precisions bf16,fp16 compares ours with
those in fp32. With --processor-time a step takes as long as the processor time of its process, which other programs on
the machine change little: for one core, as under taskset -c 0. The last table has, for each precision, the
geometric mean of our tokens per second to those of the best peer of each shape, the worst shape, and the mean of our
memory to that peer's.
"""
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "step"))
from compare import participants  # noqa: E402
from comparison import argument_parser, machine, ratios, spread, started, table, take_turns  # noqa: E402
from shapes import drawn  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

HEADINGS = ["", "layers, width, heads, ffn, vocabulary, sequence, batch", "type", "tokens/s", "best peer", "ours to it (quartiles)",
            "ours to the others", "memory to it", "losses"]  # fmt: skip


def described(shape):
    return (f"{shape.layers}, {shape.width}, {shape.heads}, {shape.inner}{' swiglu' if shape.activation == 'swiglu' else ''}, "
            f"{shape.vocabulary}, {shape.sequence}, {shape.batch}")  # fmt: skip


class Result:
    """What came of one shape in one precision."""

    def __init__(self, name, precision, runners):
        self.name, self.precision = name, precision
        self.ours, *peers = runners
        self.peers = sorted(peers, key=lambda peer: ratios(self.ours, peer)[1])
        self.ratio = ratios(self.ours, self.peers[0])
        self.memory = self.ours.peak_bytes / self.peers[0].peak_bytes

    def row(self):
        shape = WORKLOADS[self.name]
        tokens = 1e3 * shape.tokens / statistics.median(min(times) for times in self.ours.rounds)
        others = ", ".join(f"{peer.name} {ratios(self.ours, peer)[1]:.2f}" for peer in self.peers[1:])
        losses = ", ".join(f"{runner.first_losses[0]:.2f}" for runner in [self.ours, *self.peers])
        return [self.name, described(shape), self.precision, f"{tokens:.0f}", self.peers[0].name, spread(*self.ratio), others,
                f"{self.memory:.2f}", losses]  # fmt: skip


def summary(results):
    rows = []
    for precision in dict.fromkeys(result.precision for result in results):
        own = [result for result in results if result.precision == precision]
        worst = min(own, key=lambda result: result.ratio[1])
        rows.append([precision, str(len(own)), f"{statistics.geometric_mean(result.ratio[1] for result in own):.2f}",
                     f"{worst.ratio[1]:.2f} ({worst.name})", f"{statistics.mean(result.memory for result in own):.2f}"])  # fmt: skip
    return table(["type", "shapes", "geometric mean to the best peer", "worst", "memory, mean"], rows)


def main():
    parser = argument_parser(__doc__, [], ["eager tuned", "compile tuned"], rounds=3, steps=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--first", type=int, default=1, help="leave out the shapes before this one")
    parser.add_argument("--processor-time", action="store_true", help="compare processor time, on one core")
    options = parser.parse_args()
    if options.processor_time and len(os.sched_getaffinity(0)) > 1:
        parser.error("--processor-time compares on one core: begin the command with taskset -c 0")
    results = []
    for number, shape in enumerate(drawn(options.seed, options.shapes), 1):
        WORKLOADS[f"{options.seed}.{number}"] = shape
    for name in list(WORKLOADS)[-options.shapes:][options.first - 1:]:
        for precision in options.precisions:
            with tempfile.TemporaryDirectory() as folder:
                runners = started(participants(name, precision, options.peers, pathlib.Path(folder)))
                if len(runners) > 1 and runners[0].name == "terrace":
                    take_turns(f"{name} {precision}", runners, options)
                    if options.processor_time:
                        for runner in runners:
                            runner.rounds = runner.processor
                    results.append(Result(name, precision, runners))
                    print(" | ".join(results[-1].row()), file=sys.stderr, flush=True)
                for runner in runners:
                    runner.stop()
            if options.output and results:
                text = f"{machine()}; {' '.join(sys.argv[1:])}\n\n{table(HEADINGS, [r.row() for r in results])}\n{summary(results)}"
                pathlib.Path(options.output).write_text(text)
    print(table(HEADINGS, [result.row() for result in results]), summary(results), sep="\n")


if __name__ == "__main__":
    main()
