"""The tree: guarded headers, backends as files, no paths of one machine, no empty rooms, code as clang-format writes it."""
import os
import re
import shutil
import subprocess

from .sizes import cpp_functions
from .tree import Finding, room_of

# The first folder names are put together here so that this file does not hold such a path.
MACHINE_PATH = re.compile(r"(?:^|[^\w.}$/~-])/(?:" + "|".join(["work", "root", "home", "Users", "farm"]) + r")/\w")
BACKEND_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b[^\n]*(?:CUDA|NCCL|RCCL|MPI|ROCM|HIP)[^\n]*", re.M)
HOST = re.compile(r"\bhttps?://(?!www\.w3\.org/2000/svg\b)[\w.-]+")  # the name space of SVG is no host
SCRIPTS = {"shell", "python", "cmake"}


def check(tree):
    for file in tree.files:
        yield from _paths(file)
        if file.language in SCRIPTS:
            yield from _hosts(file)
        if file.language == "cpp":
            yield from _guard(file)
            yield from _backend_conditions(file)
    for folder in tree.empty_folders:
        yield Finding(folder, 1, "empty-folder", "remove it; a folder comes with its first file")
    yield from _rooms(tree)


def _paths(file):
    for number, line in enumerate(file.lines, 1):
        if match := MACHINE_PATH.search(line):
            yield Finding(file.path, number, "machine-path", f"'{match[0].strip()}...' exists on one machine; make it relative or an argument")


def _hosts(file):
    for number, line in enumerate(file.lines, 1):
        if match := HOST.search(line):
            yield Finding(file.path, number, "host-name", f"'{match[0]}': scripts name no host; package tools know where to look")


def _guard(file):
    if file.suffix in (".h", ".cuh") and not re.search(r"^#pragma once$", file.text, re.M):
        yield Finding(file.path, 2, "pragma-once", "add #pragma once below the first comment")


def _backend_conditions(file):
    bodies = None
    for match in BACKEND_CONDITION.finditer(file.text):
        if bodies is None:
            bodies = cpp_functions(file.code)
        if file.suffix == ".cpp" or any(start < match.start() < end for _, start, end in bodies):
            yield Finding(file.path, file.line_of(match.start()), "backend-ifdef",
                          "an optional backend is a file and its stub (nccl.cpp, no_nccl.cpp) chosen by CMake, not an #if")


def _rooms(tree):
    sources = {}
    for file in tree.cpp():
        if file.room():
            sources.setdefault(file.room(), []).append(file)
    tested = {room_of(f.path.replace("tests/", "terrace/", 1)) for f in tree.cpp() if re.match(r"tests/\w+/(.*/)?\w+_test\.cpp$", f.path)}
    for room, files in sorted(sources.items()):
        if room not in tree.rooms:
            yield Finding(files[0].path, 1, "room", f"room {room} has no terrace_room line in CMakeLists.txt; add one")
        if any(f.suffix == ".cpp" for f in files) and room not in tested:
            yield Finding(files[0].path, 1, "room", f"room {room} has no tests/{room}/*_test.cpp; write one")
    for room, (_, _, line) in sorted(tree.rooms.items()):
        if room not in sources:
            yield Finding("CMakeLists.txt", line, "room", f"terrace/{room} has no file; remove the line until it has")


def check_format(tree):
    formatter = shutil.which("clang-format")
    files = [f.path for f in tree.cpp()]
    if not formatter:
        return [Finding(".clang-format", 1, "format", "clang-format is not installed; run tools/setup --test")]
    shares = [files[i::os.cpu_count()] for i in range(os.cpu_count()) if files[i::os.cpu_count()]]
    runs = [subprocess.Popen([formatter, "--dry-run", "--ferror-limit=1", "-Werror", "--style=file", *share], cwd=tree.root,
                             stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) for share in shares]
    errors = "".join(run.communicate()[1] for run in runs)
    findings = []
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: error: ", errors, re.M):
        findings.append(Finding(path, int(line), "format", f"run clang-format -i {path}"))
    return findings
