"""Our trainer beside PyTorch, eager and compiled, on one GPU: the same model, batch and optimizer in bf16.

    cmake --build BUILD --target bench_step_trainer
    python3 bench/gpu/compare.py [--workloads 124M,1B,3B] [--peers compile,eager] [--rounds 4] [--steps 5]
                                 [--build FOLDER] [--output FILE.md] [--traces FOLDER] [--kernels 15] [--device cuda]
                                 [--documents TOKENS]

One program after another has the GPU for itself. The table has the median of the rounds, of each of which the fastest step
counts. MFU is 6 FLOPs a weight of the products and token, and the half of the square that causal attention needs, against
the GPU's dense bf16 rate as its maker states it. A second table has the kernels that took most of one more step.
With --documents, texts of so many tokens are apart in our attention, which the peers' is not.
"""
import pathlib

import gpu_workloads  # noqa: F401  (also makes bench/step importable)

from comparison import corpus_in, ratios, spread
from one_gpu import compare, gpu_arguments, gpu_name, milliseconds_of, our_trainer, peak_rate, peer
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
HEADINGS = ["model", "trainer", "tokens/s", "ms a step", "ours to it (quartiles)", "MFU", "GiB of the GPU", "first step s", "losses"]


def participants(workload, options, folder):
    shape = WORKLOADS[workload]
    prefix = corpus_in(folder, shape.vocabulary, document=options.documents or 2**14)
    config = folder / f"{workload}.toml"
    config.write_text(shape.config(prefix, "bf16", folder / "run"))
    yield our_trainer(options, config, *(["data.reset_at_documents=true"] if options.documents else []))
    for how in options.peers:
        yield peer(how, [HERE / "gpu_peer.py", workload, how, f"{prefix}.bin", options.device], folder)


def row(workload, runner, ours, peak):
    shape = WORKLOADS[workload]
    milliseconds = milliseconds_of(runner)
    ratio = spread(*ratios(ours, runner)) if ours and runner is not ours else ""
    return [workload, runner.name, f"{1e3 * shape.tokens / milliseconds:.0f}", f"{milliseconds:.2f}", ratio,
            f"{shape.flops / (milliseconds / 1e3) / peak:.3f}" if peak else "", f"{runner.gpu_bytes / 2**30:.2f}",
            f"{runner.first_step_seconds:.1f}", f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}"]  # fmt: skip


def main():
    parser = gpu_arguments(__doc__, ["124M", "1B", "3B"], ["compile", "eager"], rounds=4, steps=5)
    parser.add_argument("--documents", type=int, default=0, metavar="TOKENS", help="of each text; 0: they are not kept apart")
    options = parser.parse_args()
    peak = peak_rate(gpu_name())
    compare(options, HEADINGS, lambda workload, folder: participants(workload, options, folder),
            lambda workload, runner, ours, _: row(workload, runner, ours, peak))  # fmt: skip


if __name__ == "__main__":
    main()
