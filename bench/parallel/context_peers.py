"""Causal attention, forward and backward, of sequences that are cut over processes, as users of PyTorch write it.

Usage: context_peers.py ROUTE RANKS TOKENS_OF_RANK ROUNDS TYPE HEADS KEY_HEADS HEAD_DIM, with ROUTE
  ring    zigzag ring: keys are passed on while the ones at hand are used, results merged by their log sums; the CPU's flash attention by its operators,
          sends and receives of gloo
  gather  all keys at once, after Llama 3: an all-gather, flash attention of each stripe to the keys before it, and a reduce-scatter of gradients
  heads   DeepSpeed's DistributedAttention: all-to-alls around scaled_dot_product_attention
Prints JSON: for each round the seconds until all ranks were done.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def repeated(x, times):
    return x if times == 1 else x.repeat_interleave(times, 1)


def folded(gradient, times):
    return gradient if times == 1 else gradient.unflatten(1, (-1, times)).sum(2)


def merged(out, log_sum, part, part_log_sum):
    if out is None:
        return part.float(), part_log_sum
    share = torch.sigmoid(part_log_sum - log_sum).unsqueeze(-1)
    return out + share * (part.float() - out), torch.logaddexp(log_sum, part_log_sum)


def passed_on(tensors, rank, ranks):
    received = [torch.empty_like(one) for one in tensors]
    operations = []
    for one, other in zip(tensors, received):
        operations.append(dist.P2POp(dist.isend, one, (rank + 1) % ranks))
        operations.append(dist.P2POp(dist.irecv, other, (rank - 1) % ranks))
    return received, dist.batch_isend_irecv(operations)


def halves(x):
    half = x.size(2) // 2
    return x[:, :, :half], x[:, :, half:]


class Ring(torch.autograd.Function):
    """The zigzag ring: rank r has the stripes r and 2 R - 1 - r."""

    @staticmethod
    def forward(context, q, k, v):
        rank, ranks, times = dist.get_rank(), dist.get_world_size(), q.size(1) // k.size(1)
        out = log_sum = None
        keys = [k.contiguous(), v.contiguous()]
        for step in range(ranks):
            if step + 1 < ranks:
                received, works = passed_on(keys, rank, ranks)
            k_now, v_now = repeated(keys[0], times), repeated(keys[1], times)
            if step == 0:
                part, part_log_sum = FLASH(q, k_now, v_now, 0.0, True)
                out, log_sum = merged(out, log_sum, part, part_log_sum)
            elif step <= rank:
                part, part_log_sum = FLASH(q, halves(k_now)[0], halves(v_now)[0], 0.0, False)
                out, log_sum = merged(out, log_sum, part, part_log_sum)
            else:
                part, part_log_sum = FLASH(halves(q)[1], k_now, v_now, 0.0, False)
                half = q.size(2) // 2
                tail, tail_log_sum = merged(out[:, :, half:], log_sum[:, :, half:], part, part_log_sum)
                out, log_sum = torch.cat([out[:, :, :half], tail], 2), torch.cat([log_sum[:, :, :half], tail_log_sum], 2)
            if step + 1 < ranks:
                for work in works:
                    work.wait()
                keys = received
        out = out.to(q.dtype)
        context.save_for_backward(q, k, v, out, log_sum)
        return out

    @staticmethod
    def backward(context, d_out):
        q, k, v, out, log_sum = context.saved_tensors
        rank, ranks, times = dist.get_rank(), dist.get_world_size(), q.size(1) // k.size(1)
        d_out = d_out.contiguous()
        dq = torch.zeros_like(q, dtype=torch.float32)
        keys, sums = [k.contiguous(), v.contiguous()], None
        half = q.size(2) // 2
        for step in range(ranks):
            if step + 1 < ranks:
                received, works = passed_on(keys, rank, ranks)
            k_now, v_now = repeated(keys[0], times), repeated(keys[1], times)
            dk, dv = torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)
            if step == 0:
                own = FLASH_BACKWARD(d_out, q, k_now, v_now, out, log_sum, 0.0, True)
                dq += own[0]
                dk += folded(own[1].float(), times)
                dv += folded(own[2].float(), times)
            elif step <= rank:
                own = FLASH_BACKWARD(d_out, q, halves(k_now)[0], halves(v_now)[0], out, log_sum, 0.0, False)
                dq += own[0]
                dk[:, :, :half] += folded(own[1].float(), times)
                dv[:, :, :half] += folded(own[2].float(), times)
            else:
                own = FLASH_BACKWARD(halves(d_out)[1], halves(q)[1], k_now, v_now, halves(out)[1], halves(log_sum)[1].contiguous(), 0.0, False)
                dq[:, :, half:] += own[0]
                dk += folded(own[1].float(), times)
                dv += folded(own[2].float(), times)
            if sums is not None:
                for work in sum_works:
                    work.wait()
                dk, dv = dk + sums[0], dv + sums[1]
            sums, sum_works = passed_on([dk, dv], rank, ranks)
            if step + 1 < ranks:
                for work in works:
                    work.wait()
                keys = received
        for work in sum_works:
            work.wait()
        return dq.to(q.dtype), sums[0].to(k.dtype), sums[1].to(v.dtype)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(context, q, k, v):
        rank, ranks, times = dist.get_rank(), dist.get_world_size(), q.size(1) // k.size(1)
        both = torch.stack([k, v]).contiguous()
        parts = [torch.empty_like(both) for _ in range(ranks)]
        dist.all_gather(parts, both)
        keys = []
        for i in range(2):
            stripes = [halves(part[i])[0] for part in parts] + [halves(part[i])[1] for part in reversed(parts)]
            keys.append(repeated(torch.cat(stripes, 2), times))
        half = q.size(2) // 2
        outs, log_sums = [], []
        for stripe, own in ((rank, halves(q)[0]), (2 * ranks - 1 - rank, halves(q)[1])):
            before = stripe * half
            part, log_sum = FLASH(own, keys[0][:, :, before : before + half], keys[1][:, :, before : before + half], 0.0, True)
            if before > 0:
                rest = FLASH(own, keys[0][:, :, :before], keys[1][:, :, :before], 0.0, False)
                part, log_sum = merged(part.float(), log_sum, *rest)
            outs.append(part.to(q.dtype))
            log_sums.append(log_sum.contiguous())
        context.save_for_backward(q, *keys, *outs, *log_sums)
        context.times = times
        return torch.cat(outs, 2)

    @staticmethod
    def backward(context, d_out):
        q, k, v, out_a, out_b, log_a, log_b = context.saved_tensors
        rank, ranks = dist.get_rank(), dist.get_world_size()
        half = q.size(2) // 2
        dk, dv = torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)
        dq = []
        for i, (stripe, out, log_sum) in enumerate(((rank, out_a, log_a), (2 * ranks - 1 - rank, out_b, log_b))):
            own, gradient, before = halves(q)[i], halves(d_out)[i].contiguous(), stripe * half
            now = FLASH_BACKWARD(gradient, own, k[:, :, before : before + half], v[:, :, before : before + half], out, log_sum, 0.0, True)
            sum_q = now[0].float()
            dk[:, :, before : before + half] += now[1]
            dv[:, :, before : before + half] += now[2]
            if before > 0:
                now = FLASH_BACKWARD(gradient, own, k[:, :, :before], v[:, :, :before], out, log_sum, 0.0, False)
                sum_q = sum_q + now[0]
                dk[:, :, :before] += now[1]
                dv[:, :, :before] += now[2]
            dq.append(sum_q.to(q.dtype))
        both = torch.stack([folded(dk, context.times), folded(dv, context.times)])
        stripes = both.chunk(2 * ranks, 3)
        to = [torch.cat([stripes[i], stripes[2 * ranks - 1 - i]], 3).contiguous() for i in range(ranks)]
        own = torch.empty_like(to[0])
        dist.reduce_scatter(own, to)
        return torch.cat(dq, 2), own[0].to(q.dtype), own[1].to(q.dtype)


class Exchange(torch.autograd.Function):
    """[B, H, P, D] of all heads and own positions to own heads and all positions, or back."""

    @staticmethod
    def forward(context, x, to_heads):
        context.to_heads = to_heads
        return exchanged(x, to_heads)

    @staticmethod
    def backward(context, gradient):
        return exchanged(gradient, not context.to_heads), None


def exchanged(x, to_heads):
    ranks = dist.get_world_size()
    scatter, gather = (1, 2) if to_heads else (2, 1)
    pieces = torch.stack(x.chunk(ranks, scatter)).contiguous()
    received = torch.empty_like(pieces)
    dist.all_to_all_single(received, pieces)
    return torch.cat(list(received), gather)


def by_heads(q, k, v):
    times = q.size(1) // k.size(1)
    q, k, v = Exchange.apply(q, True), Exchange.apply(repeated(k, times), True), Exchange.apply(repeated(v, times), True)
    return Exchange.apply(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), False)


def own_part(x, rank, ranks, route):
    if route == "heads":
        return x.chunk(ranks, 2)[rank]
    stripes = x.chunk(2 * ranks, 2)
    return torch.cat([stripes[rank], stripes[2 * ranks - 1 - rank]], 2)


def check(attend, route, rank, ranks, heads, key_heads, head_dim):
    """Small results and gradients equal those of whole sequences."""
    torch.manual_seed(1)
    whole = [torch.randn(1, n, 16 * ranks, head_dim, requires_grad=True) for n in (heads, key_heads, key_heads)]
    gradient = torch.randn(1, heads, 16 * ranks, head_dim)
    times = heads // key_heads
    exact = torch.nn.functional.scaled_dot_product_attention(whole[0], repeated(whole[1], times), repeated(whole[2], times), is_causal=True)
    exact.backward(gradient)
    own = [own_part(x.detach(), rank, ranks, route).contiguous().requires_grad_() for x in whole]
    out = attend(*own)
    out.backward(own_part(gradient, rank, ranks, route).contiguous())
    torch.testing.assert_close(out, own_part(exact, rank, ranks, route), atol=1e-4, rtol=1e-4)
    for mine, all_of_it in zip(own, whole):
        torch.testing.assert_close(mine.grad, own_part(all_of_it.grad, rank, ranks, route), atol=1e-4, rtol=1e-4)


def work(rank, route, ranks, tokens, rounds, dtype, heads, key_heads, head_dim, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    q = torch.randn(1, heads, tokens, head_dim, dtype=kind, requires_grad=True)
    k, v = (torch.randn(1, key_heads, tokens, head_dim, dtype=kind, requires_grad=True) for _ in range(2))
    gradient = torch.randn(1, heads, tokens, head_dim, dtype=kind)
    attend = {"ring": Ring.apply, "gather": Gather.apply, "heads": by_heads}[route]
    check(attend, route, rank, ranks, heads, key_heads, head_dim)
    seconds = []
    for _ in range(rounds + 1):
        q.grad = k.grad = v.grad = None
        dist.barrier()
        began = time.perf_counter()
        attend(q, k, v).backward(gradient)
        dist.barrier()
        seconds.append(time.perf_counter() - began)
    if rank == 0:
        results.put(seconds[1:])
    dist.destroy_process_group()


def main():
    route, ranks, tokens, rounds, dtype, heads, key_heads, head_dim = (sys.argv[1:] + ["ring", 2, 4096, 3, "fp32", 16, 16, 64][len(sys.argv) - 1 :])[:8]
    results = mp.get_context("spawn").SimpleQueue()
    port = 20000 + os.getpid() % 20000
    arguments = (route, int(ranks), int(tokens), int(rounds), dtype, int(heads), int(key_heads), int(head_dim), port, results)
    mp.spawn(work, args=arguments, nprocs=int(ranks))
    print(json.dumps({"seconds": results.get()}))


if __name__ == "__main__":
    main()
