"""Attention to documents on a GPU as torch computes it: as sequences of any length, with a mask, and to whole sequences.

    python3 bench/gpu/document_attention.py

Forward and backward in bf16, the mean of ten; needs torch alone. terrace/ops/attention/flash_attention.cpp calls the first of them.
"""
import torch

FLASH = torch.ops.aten._flash_attention_forward
SHAPES = [(8, 2048, 14, 512), (1, 16384, 16, 1024)]  # sequences, tokens, heads, and the mean length of a document
HEAD_WIDTH, REPEATS = 128, 10


def milliseconds(compute):
    for _ in range(3):
        compute()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(REPEATS):
        compute()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / REPEATS


def report(sequences, length, heads, mean):
    def normal():
        return torch.randn(sequences, length, heads, HEAD_WIDTH, device="cuda", dtype=torch.bfloat16)

    queries, keys, values = (normal().requires_grad_() for _ in range(3))
    gradient = normal()
    begins = torch.rand(sequences, length) < 1 / mean
    begins[:, 0] = True
    ends = torch.tensor([sequences * length])
    starts = torch.cat([begins.flatten().nonzero().flatten(), ends]).int()
    longest, on_gpu = int((starts[1:] - starts[:-1]).max()), starts.cuda()
    documents = begins.flatten().cumsum(0).view(sequences, length).cuda()

    def any_length():
        by_token = [tensor.flatten(0, 1) for tensor in (queries, keys, values)]
        FLASH(*by_token, on_gpu, on_gpu, longest, longest, 0.0, True, False)[0].backward(gradient.flatten(0, 1))

    def fused(**visible):
        by_head = [tensor.transpose(1, 2) for tensor in (queries, keys, values)]
        torch.nn.functional.scaled_dot_product_attention(*by_head, **visible).backward(gradient.transpose(1, 2))

    def masked():
        fused(attn_mask=(documents[:, :, None] == documents[:, None, :]).tril().unsqueeze(1))

    print(f"{sequences} x {length} tokens in {len(starts) - 1} documents, {heads} heads of {HEAD_WIDTH}: "
          f"any length {milliseconds(any_length):.2f} ms, with a mask {milliseconds(masked):.2f} ms, "
          f"whole sequences {milliseconds(lambda: fused(is_causal=True)):.2f} ms")  # fmt: skip


if __name__ == "__main__":
    torch.manual_seed(0)
    for shape in SHAPES:
        report(*shape)
