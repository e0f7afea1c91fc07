"""Runs reference cases in PyTorch for the tests: one request after another on standard input, answers on standard output.

A message is an 8-byte length, that many bytes of JSON, and the bytes of the tensors that the JSON lists. A request names a
script, a case (a function of it) and a type. The case gets the tensors by name and the options and returns tensors by
name. It runs twice, in double precision and in the type, both from the same values. For every result r with a tensor
"upstream.r" among the inputs backward is called, and the gradient of each floating-point input x comes back as
"gradient.x".
"""

import importlib.util
import json
import os
import struct
import sys
import traceback

import torch

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64,
         "int64": torch.int64, "bool": torch.bool}
NAMES = {value: key for key, value in TYPES.items()}
scripts = {}


def read_message(stream):
    header = stream.read(8)
    if len(header) < 8:
        return None, None
    message = json.loads(stream.read(struct.unpack("<Q", header)[0]))
    tensors = {}
    for entry in message["tensors"]:
        dtype = TYPES[entry["type"]]
        count = 1
        for size in entry["shape"]:
            count *= size
        data = bytearray(stream.read(count * dtype.itemsize))
        flat = torch.frombuffer(data, dtype=dtype) if count else torch.empty(0, dtype=dtype)
        tensors[entry["name"]] = flat.reshape(entry["shape"])
    return message, tensors


def write_message(stream, message, tensors):
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    message["tensors"] = [{"name": name, "type": NAMES[tensor.dtype], "shape": list(tensor.shape)}
                          for name, tensor in tensors.items()]
    text = json.dumps(message).encode()
    stream.write(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        stream.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    stream.flush()


def load(path):
    if path not in scripts:
        spec = importlib.util.spec_from_file_location("case_" + str(len(scripts)), path)
        scripts[path] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(scripts[path])
    return scripts[path]


def run(case, tensors, options, dtype):
    inputs, upstream = {}, {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensor = tensor.to(dtype, copy=True)
        if name.startswith("upstream."):
            upstream[name.removeprefix("upstream.")] = tensor
        else:
            inputs[name] = tensor.requires_grad_(tensor.is_floating_point())
    results = dict(case(inputs, options))
    if upstream:
        roots = [results[name] for name in upstream]
        torch.autograd.backward(roots, [upstream[name].to(root.dtype) for name, root in zip(upstream, roots)])
        for name, tensor in inputs.items():
            if tensor.requires_grad:
                gradient = tensor.grad
                results["gradient." + name] = torch.zeros_like(tensor) if gradient is None else gradient
    return results


def main():
    # The cases are small, and the test beside this process wants the other cores.
    torch.set_num_threads(1)
    # A case may print; the channel of the answers must stay clean.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        message, tensors = read_message(sys.stdin.buffer)
        if message is None:
            return
        try:
            case = getattr(load(message["script"]), message["case"])
            results = {}
            for prefix, dtype in (("exact.", torch.float64), ("theirs.", TYPES[message["type"]])):
                for name, tensor in run(case, tensors, message["options"], dtype).items():
                    results[prefix + name] = tensor
            write_message(answers, {}, results)
        except Exception:
            write_message(answers, {"error": traceback.format_exc()}, {})


if __name__ == "__main__":
    main()
