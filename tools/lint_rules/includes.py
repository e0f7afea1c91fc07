"""Which room may include which, and which outside headers appear where."""
import re

from .tree import Finding, room_of

# Rooms that stay free of torch, MPI, NCCL and CUDA, whatever the build file says.
TORCH_FREE = {"base", "config", "machine", "mesh", "schedule", "layers", "data", "forecast", "observe", "planned_models", "plan", "score", "search",
              "ensemble", "doctor", "launch", "translate"}
# Everyone may include these without a word in the build file.
OPEN_ROOMS = {"base", "config"}
OPEN_HEADERS = {"observe/metrics.h"}
# Headers that pull in the whole of torch: 6 to 18 s for every file that includes them.
WHOLE_TORCH = {"torch/torch.h", "torch/all.h", "torch/extension.h", "ATen/ATen.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2)/")
CUDA_HEADER = re.compile(r"^(ATen/cuda|ATen/native/cuda|c10/cuda|torch/csrc/cuda|cuda|cub|thrust|cublas|cudnn|cutlass|mma|nvtx)")
MESSAGE_HEADER = re.compile(r"^(mpi|nccl|rccl)(/|\.h)")
# A backend is a file of its own, so its headers appear in that file only: cuda_memory.cpp, kernels.cu.
CUDA_FILE = re.compile(r"(\.cuh?$)|(^|/)cuda[^/]*\.(cpp|h)$|(^|/)cublas/[^/]*\.cpp$")
# Headers that code for GPUs includes in place of their makers' headers.
GPU_NAMES = re.compile(r"^terrace/(comm/nccl/gpu/\w+/gpu_runtime\.h|base/gpu/\w+/gpu_language\.cuh)$")
COMMUNICATOR = re.compile(r"\b(ProcessGroup\w*|MPI_Comm|ncclComm_t|comm::\w+|Comm\b)")


def check(tree):
    for file in tree.cpp():
        room = file.room()
        for match in INCLUDE.finditer(file.text):
            line = file.line_of(match.start())
            for rule, advice in _problems(tree, file, room, match[1]):
                yield Finding(file.path, line, rule, advice)
        if room in ("models", "nn"):
            for match in COMMUNICATOR.finditer(file.code):
                yield Finding(file.path, file.line_of(match.start()), "communicator",
                              f"{room}/ is single-device code and names no communicator; move '{match[0]}' to parallel/ or comm/")


def _problems(tree, file, room, header):
    if header in WHOLE_TORCH:
        yield "whole-torch", f"{header} costs up to 18 s a file; include <ATen/core/Tensor.h> and <ATen/ops/NAME.h>"
    if room:
        yield from _outside_header(tree, file, room, header)
    if header.startswith("cli/") and not file.path.startswith("cli/"):
        yield "include-room", "nobody includes cli/; move what is shared into a room"
    if room and header.startswith("terrace/"):
        yield from _inside_header(tree, file, room, header)


def _outside_header(tree, file, room, header):
    linked_torch = room in tree.rooms and tree.rooms[room][1]
    free = room in TORCH_FREE or not linked_torch
    if TORCH_HEADER.match(header) and free:
        yield "torch-free", f"{header}: room {room} does without torch; move this code to a room that uses tensors"
    if CUDA_HEADER.match(header) and (free or not CUDA_FILE.search(file.path)) and not GPU_NAMES.match(file.path):
        yield "backend-file", f"{header}: CUDA headers belong in a .cu file, cuda*.cpp or cublas/*.cpp of a room with torch"
    if MESSAGE_HEADER.match(header) and room != "comm":
        yield "backend-file", f"{header}: MPI and NCCL headers belong in comm/"


def _inside_header(tree, file, room, header):
    parts = header.split("/")
    used, rest = room_of(header), "/".join(parts[1:])
    if not tree.exists(header):
        yield "include-room", f"{header} does not exist"
    if used == room or used in OPEN_ROOMS - {"config"} and room != "base" or used == "config" and room not in ("base", "config"):
        pass
    elif rest in OPEN_HEADERS and room not in OPEN_ROOMS:
        pass
    elif room not in tree.rooms:
        yield "include-room", f"room {room} has no terrace_room line in CMakeLists.txt; add one with the rooms it may include"
    elif used not in tree.rooms[room][0]:
        allowed = ", ".join(sorted(tree.rooms[room][0])) or "nothing"
        yield "include-room", f"{room} may include {allowed}, not {used}; move the code, or the shared part of it"
    if used == "mesh" and room in ("models", "nn") and rest != "mesh/param_mark.h":
        yield "include-room", f"{room} knows of mesh only param_mark.h: a model is written for one device"
    if room == "parallel" and used in ("models", "planned_models") and len(parts) > 3:
        yield "include-room", "parallel knows the models' common interface (models/model.h) and no single model"

