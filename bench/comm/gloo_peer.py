"""Times Gloo's collectives through torch.distributed as bench_comm_threads times ours: gloo_peer.py RANK RANKS PORT."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

SIZES = (8, 64, 512, 4096, 32768, 262144, 2097152, 16777216, 67108864)


def send_back_and_forth(data, rank):
    if rank > 1:
        return
    if rank == 0:
        dist.send(data, 1)
    dist.recv(data, 1 - rank)
    if rank == 1:
        dist.send(data, 0)


def time_batches(call):
    """Median and least of the batches, microseconds a call; rank 0 plans them."""

    def seconds_of(calls):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - began) / calls

    seconds_of(5)
    about = seconds_of(3)
    calls = max(3, int(0.002 / about))
    plan = torch.tensor([calls, min(25, max(5, int(1 / (about * calls))))])
    dist.broadcast(plan, 0)
    times = []
    for _ in range(int(plan[1])):
        dist.barrier()
        times.append(1e6 * seconds_of(int(plan[0])))
    return statistics.median(times), min(times)


def main():
    rank, ranks, port = (int(word) for word in sys.argv[1:])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in SIZES:
        whole = torch.zeros(size // 4)
        block = torch.zeros(size // 4 // ranks)
        operations = {
            "all_reduce": lambda: dist.all_reduce(whole),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(block, whole),
            "all_gather": lambda: dist.all_gather_into_tensor(whole, block),
            "send": lambda: send_back_and_forth(whole, rank),
        }
        for name, call in operations.items():
            if size // 4 % ranks:
                continue
            trips = 2 if name == "send" else 1
            median, least = time_batches(call)
            if rank == 0:
                print(name, size, f"{median / trips:.4f} {least / trips:.4f}", flush=True)
    dist.destroy_process_group()


main()
