"""Which GPUs this machine has: NVIDIA's as nvidia-smi lists them, else AMD's as rocm-smi and rocminfo do."""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
from typing import NamedTuple


class Gpu(NamedTuple):
    maker: str
    name: str
    architecture: str  # such as 9.0 or gfx90a; "" where nothing says it
    memory: str
    driver: str

    def text(self):
        return ", ".join(self[1:])


def output_of(*command, even_if_it_fails=False):
    """What a program prints; "" where it fails or there is none."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 or even_if_it_fails else ""


def rocm_folder():
    """Where cmake/rocm.cmake looks for ROCm too."""
    named = os.environ.get("ROCM_PATH", "")
    return pathlib.Path(named if os.path.isdir(named) else "/opt/rocm")


def of_rocm(program):
    return shutil.which(program) or str(rocm_folder() / "bin" / program)


def of_nvidia():
    listed = output_of("nvidia-smi", "--query-gpu=name,compute_cap,memory.total,driver_version", "--format=csv,noheader")
    return [Gpu("NVIDIA", *line.split(", ")) for line in listed.splitlines() if line.count(", ") == 3]


def agents():
    """Names and architectures of AMD's GPUs by rocminfo, whose names are the makers'. Those of rocm-smi may be a board's ("AMD INSTINCT
    MI200 (MCM) OAM LC MBA HPE C2" for an MI250X), and its architectures are sometimes wrong (gfx9010 for gfx90a)."""
    parts = re.split(r"^Agent \d+ *$", output_of(of_rocm("rocminfo")), flags=re.M)[1:]
    described = [dict(re.findall(r"^  (\w[\w ]*): +(\S.*?) *$", part, re.M)) for part in parts]
    return [(fields.get("Marketing Name", ""), fields.get("Name", "")) for fields in described if fields.get("Device Type") == "GPU"]


def of_amd():
    # rocm-smi lists the GPUs, and then fails where one of them has no value for something; warnings may come first.
    text = output_of(of_rocm("rocm-smi"), "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json", even_if_it_fails=True)
    try:
        found, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    except ValueError:
        return []
    # "Card series" until ROCm 6.0, then "Card Series".
    cards = [{key.lower(): value for key, value in fields.items()} for name, fields in found.items() if re.fullmatch(r"card\d+", name)]
    known, driver = agents(), found.get("system", {}).get("Driver version", "unknown driver")
    if len(known) != len(cards):  # where not all are visible, the others are taken for equal to the first that is
        known = (known or [("", "")])[:1] * len(cards)
    return [Gpu("AMD", name or card.get("card series", "unknown GPU"), architecture, mebibytes(card.get("vram total memory (b)", "")), driver)
            for card, (name, architecture) in zip(cards, known)]  # fmt: skip


def mebibytes(count):
    return f"{int(count) // 2**20} MiB" if count.isdigit() else "unknown memory"


@functools.cache
def gpus():
    return of_nvidia() or of_amd()
