"""The tables of published runs in bench/plan/data, as `terrace plan --score` takes them.

    python3 tools/published_tables.py [PROGRAM]    writes machines/published_errors.json again
"""
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
DATA = "bench/plan/data"
# Names of files, and what docs/accuracy.md calls the runs.
TABLES = {
    "vtrain_a100_single": "Megatron-LM on one node of 8 A100, composed of measured parts",
    "vtrain_a100_multi": "Megatron-LM on 64 to 512 A100",
    "sc21_a100": "Megatron-LM's authors on 32 to 3,072 A100",
    "zero_bubble_1f1b_a100": "pipelines of Megatron-LM on 8 to 32 A100",
    "h100": "Megatron-Core and Llama 3 405B on 48 to 16,384 H100",
    "torchtitan_h100": "torchtitan on 8 to 256 H100",
    "fsdp_a100": "FSDP of llm-foundry on 8 to 128 A100",
    "frontier_mi250x_points": "8 to 5,120 dies of MI250X, of Frontier and LUMI",
    "lumi_gpt_2023": "Megatron-DeepSpeed on 8 to 2,048 dies of MI250X, of LUMI",
}


def score_command(program, *arguments, tables=TABLES):
    command = [program, "plan", *arguments]
    for name in tables:
        command += ["--score", f"{DATA}/{name}.csv"]
    return [str(word) for word in command]


if __name__ == "__main__":
    program = sys.argv[1] if len(sys.argv) > 1 else SOURCE / "build/release/terrace"
    command = score_command(program, "--errors", "machines/published_errors.json")
    sys.exit(subprocess.run(command, cwd=SOURCE, stdout=subprocess.DEVNULL).returncode)
