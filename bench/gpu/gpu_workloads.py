"""The models of bench/gpu/compare.py: GPTs of 124 million, one and three billion parameters, one with SwiGLU, and one for a test on a CPU."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "step"))
from workloads import WORKLOADS, Workload  # noqa: E402

WORKLOADS.update({
    "tiny": Workload(layers=2, width=64, heads=2, sequence=64, batch=4, vocabulary=512, micro_batch=2),
    "124M": Workload(layers=12, width=768, heads=12, sequence=1024, batch=32, vocabulary=50304),
    "1B": Workload(layers=24, width=1792, heads=14, sequence=2048, batch=8, vocabulary=50304),
    "1B-swiglu": Workload(layers=24, width=1792, heads=14, sequence=2048, batch=8, vocabulary=50304, ffn_width=4864, activation="swiglu"),
    "3B": Workload(layers=32, width=2688, heads=21, sequence=2048, batch=8, vocabulary=50304, micro_batch=2),
})  # fmt: skip
