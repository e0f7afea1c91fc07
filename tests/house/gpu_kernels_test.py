"""Compares what nvcc and ptxas make of each kernel for an H100 with the table in gpu_kernels.txt.

The table has the registers of a thread, the bytes that it spills, and the loads and stores of 16 bytes. A kernel that spills is
an error whatever the table says. Registers are compared where nvcc is the version of the table, since others choose otherwise.
With --write it writes the table. Exits with 77 where there is no nvcc.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_suffix("").with_name("gpu_kernels.txt")
NCCL = ".deps/python/lib/python3.11/site-packages/nvidia/nccl/include"
FLAGS = ["-std=c++20", "-O3", "--fmad=false", "--expt-relaxed-constexpr", "-arch=sm_90", "-I.", "-Iterrace/base/gpu",
         "-Iterrace/base/gpu/cuda", "-Iterrace/comm/nccl/gpu/cuda", f"-I{NCCL}"]
COLUMNS = "kernel | registers | bytes spilled | 16-byte loads | 16-byte stores"


def nvcc():
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ] + ["/usr/local/cuda"]
    found = [shutil.which("nvcc")] + [shutil.which("nvcc", path=f"{root}/bin") for root in roots]
    return next((pathlib.Path(path) for path in found if path), None)


def names_of(symbols):
    """The kernels as the sources name them, with their template arguments."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    names = []
    for line in text.splitlines():
        line = line.replace("(anonymous namespace)::", "").replace("terrace::", "").removeprefix("void ")
        names.append(re.sub(r"\([\w:]+\)(?=\w)", "", line).split("(")[0])  # template arguments as "(int)4" too
    return dict(zip(symbols, names))


def wide_accesses(ptx):
    """By symbol: the loads and stores of 16 bytes of global memory."""
    counts = {}
    for entry in re.split(r"^\.visible \.entry |^\.entry ", ptx, flags=re.MULTILINE)[1:]:
        symbol = re.match(r"\w+", entry).group()
        wide = r"\.global(?:\.\w+)*\.(?:v4\.[a-z]+32|v2\.[a-z]+64)\b"
        counts[symbol] = (len(re.findall(r"\bld" + wide, entry)), len(re.findall(r"\bst" + wide, entry)))
    return counts


def rows_of(kernels, compiler, folder):
    ptx, out = folder / f"{kernels.stem}_{kernels.parent.name}.ptx", folder / f"{kernels.stem}.cubin"
    subprocess.run([compiler, *FLAGS, "-ptx", kernels, "-o", ptx], cwd=SOURCE, check=True)
    report = subprocess.run([compiler.with_name("ptxas"), "-v", "-arch=sm_90", ptx, "-o", out], cwd=SOURCE, check=True,
                            capture_output=True, text=True)
    wide = wide_accesses(ptx.read_text())
    found = re.findall(r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                       report.stdout + report.stderr, re.DOTALL)
    names = names_of([symbol for symbol, *_ in found])
    where = kernels.relative_to(SOURCE / "terrace").with_suffix("")
    assert len(set(names.values())) == len(names), f"{where} has kernels of one name"
    return {f"{where} {names[symbol]}": [int(registers), int(stored) + int(loaded), *wide[symbol]]
            for symbol, stored, loaded, registers in found}


def measured(compiler):
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        sources = sorted(SOURCE.glob("terrace/**/*.cu"))
        parts = pool.map(lambda kernels: rows_of(kernels, compiler, pathlib.Path(scratch)), sources)
        return {name: row for part in parts for name, row in part.items()}


def version_of(compiler):
    text = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+)", text).group(1)


def read_table():
    first, columns, *lines = TABLE.read_text().splitlines()
    rows = {}
    for line in lines:
        name, *numbers = line.split(" | ")
        rows[name] = [int(number) for number in numbers]
    return re.search(r"nvcc ([\d.]+)", first).group(1), rows


def differences(version, rows):
    table_version, table = read_table()
    for name in sorted(rows.keys() | table.keys()):
        ours, theirs = rows.get(name), table.get(name)
        if ours and theirs and version != table_version:
            ours, theirs = ours[1:], theirs[1:]
        if ours != theirs:
            yield f"{name}: {ours}, in the table {theirs}"


def main():
    compiler = nvcc()
    if compiler is None or not (SOURCE / NCCL / "nccl.h").exists():
        print("there is no nvcc in PATH, CUDA_HOME, CUDA_PATH and /usr/local/cuda, or no header of NCCL")
        return 77
    rows, version = measured(compiler), version_of(compiler)
    spilling = [name for name, row in rows.items() if row[1] > 0]
    for name in spilling:
        print(f"{name} spills {rows[name][1]} bytes")
    if not rows or spilling:
        return 1
    if "--write" in sys.argv:
        lines = [" | ".join(map(str, [name, *rows[name]])) for name in sorted(rows)]
        TABLE.write_text("\n".join([f"Kernels for compute capability 9.0 by nvcc {version}", COLUMNS, *lines]) + "\n")
        return 0
    different = list(differences(version, rows))
    print(COLUMNS, *different, sep="\n" if different else "")
    print(f"{len(rows)} kernels, {len(different)} differ from {TABLE.name}; --write writes it again")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
