"""The machine's rates of matrix products, measured on demand: "go 1" prints GFLOP/s in fp32 and in bf16.

fp32 is the better of MKL's and oneDNN's, since MKL takes its fast kernels only on CPUs that it takes for Intel's.
"""
import os
import sys
import time

import torch

ROWS, INNER, COLUMNS, REPEATS = 2048, 768, 3072, 10


def rate(product):
    product()
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        product()
        best = min(best, time.perf_counter() - began)
    return 2e-9 * ROWS * INNER * COLUMNS / best


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    x, w = torch.randn(ROWS, INNER), torch.randn(COLUMNS, INNER)
    x16, w16, blocked_x, blocked_w = x.bfloat16(), w.bfloat16(), x.to_mkldnn(), w.to_mkldnn()
    linear = torch.nn.functional.linear
    with torch.no_grad():
        print(f"@ ready {time.time()} loss nan", flush=True)
        for line in sys.stdin:
            if line.strip() == "quit":
                break
            fp32 = max(rate(lambda: linear(x, w)), rate(lambda: torch._C._nn.mkldnn_linear(blocked_x, blocked_w)))
            print("@ ms", f"{fp32:.1f}", f"{rate(lambda: linear(x16, w16)):.1f}", "loss nan", flush=True)


main()
