# Second lines of extended XYZ in all spellings of their grammar, and what ASE makes of each.
import collections
import json
import random
import sys
import warnings

import ase.io.extxyz
import numpy

ATOM = "H 0.5 1 2"
NUMBERS = ["1", "-12.5", "+3", "1e309", "-1e400", "1e-400", "1D2", "-1.25D+01", "1.5d0", "nan", "inf", "-Infinity", "1_000",
           "1_0.5", ".5", "5.", "1e5", "0x10", "1e", "1.0f", "9223372036854775808", "00012", "+-3", "1__0", "2E-3", "T", "F",
           "true", "abc", "NaN", "--3", "1,5", "1e+05", "1.7976931348623157e308", "4.9e-324", "7" * 400, "0." + "0" * 400 + "1"]
KEYS = ["energy", "a", "b_1", "E", "name", "REF_energy", "_x", "a-b", "k.l", "free_energy", "virial", "stress", "Lattice", "pbc",
        "lattice", "PBC", "Properties", "uid", "charge", "config_type", 'a"b"', "x\\=y"]
CELLS = ['"5 0 0 0 5 0 0 0 5"', '"5. 0 0, 1 5 0 0 0 6"', "[5 0 0 0 5 0 0 0 5]", "{5,0,0,0,5,0,0,0,5}", "'5 0 0 0 5 0 0 0 5'"]


class Spellings:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def numbers(self):
        separator = self.one(" ", ",", ", ", "  ", "\t")
        count = self.one(1, 2, 3, 3, 6, 9)
        if self.random.random() < 0.15:
            return separator.join(self.one("T", "F", "true", "False") for _ in range(count))
        return separator.join(self.one(*NUMBERS) if self.random.random() < 0.2 else self.one("1", "0", "-2.5", "3.25", "0.5")
                              for _ in range(count))

    def value(self):
        if self.random.random() < 0.45:
            return self.one(*NUMBERS)
        body = self.numbers()
        in_json = ", ".join(self.one("1", "2.5", "true", "NaN", "null", "[1,2]", "[3,4]", '\\"s\\"')
                            for _ in range(self.random.randint(0, 3)))
        return self.one(f'"{body}"', f'"{body}"', f"'{body}'", "{%s}" % body, f"[{body}]", f"[[{body}],[{body}]]", f'"[{body}]"',
                        f'"_JSON [{in_json}]"', '""', "", '"a b" ', body)

    def pair(self):
        key = self.one(*KEYS)
        if key == "Lattice" and self.random.random() < 0.7:
            return "Lattice=" + self.one(*CELLS)
        if key == "pbc" and self.random.random() < 0.8:
            return self.one('pbc="T F T"', "pbc=T", "pbc", 'pbc="1 1 0"', "pbc=F", "pbc=[T,T,F]", "pbc=0", 'pbc="true false True"')
        if key == "Properties":
            return "Properties" + self.one("=", " = ") + "species:S:1:pos:R:3"
        if self.random.random() < 0.1:
            return key
        return key + self.one(*"========", " =", "= ", " = ", "  =  ", "\t=\t", "=\u00a0") + self.value()

    def line(self):
        line = self.one(" ", "  ", "\t", " \u00a0 ").join(self.pair() for _ in range(self.one(1, 1, 2, 3, 4)))
        if self.random.random() < 0.05:
            line = self.one("  ", "\t") + line + " "
        return line + (self.one("'", '"', "[", "{", "\\", "= ", " =3") if self.random.random() < 0.03 else "")


def write_lines(folder, seed, count):
    spellings = Spellings(int(seed))
    with open(folder + "/spellings.xyz", "w") as file:
        for _ in range(int(count)):
            file.write(f"1\n{spellings.line()}\n{ATOM}\n")


def numbers_of(value):
    """The numbers or logicals of a value as ASE has it; none of a text."""
    if isinstance(value, list):
        value = numpy.array(value)
    if isinstance(value, numpy.ndarray):
        return value.astype(float).ravel() if value.dtype.kind in "ifb" and value.size > 0 else None
    return numpy.array([float(value)]) if isinstance(value, (bool, int, float, numpy.generic)) else None


def is_remark(line):
    """Of words alone, of which nothing is taken, where ASE calls each of them true."""
    return "=" not in line.replace("\\=", "")


def read_by_ase(line):
    """The numbers by key, cell and periodicity, or nothing where ASE does not read the line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            keys = ase.io.extxyz.key_val_str_to_dict(line.strip())
            atoms = ase.io.extxyz._read_xyz_frame(iter([line + "\n", ATOM + "\n"]), 1)
        except Exception:
            return None
    numbers = {key: numbers_of(value) for key, value in keys.items() if key not in ("Lattice", "pbc", "Properties", "")}
    return {key: value for key, value in numbers.items() if value is not None and not is_remark(line)}, atoms


def compare_lines(folder):
    lines = open(folder + "/spellings.xyz", newline="\n").read().split("\n")[1::3]
    counts = collections.Counter()
    for line, answer in zip(lines, open(folder + "/answers.jsonl"), strict=True):
        ours = json.loads(answer)
        if "error" in ours:
            assert ours["error"].startswith("line 2: "), (line, ours)
            counts["refused by line"] += 1
            continue
        theirs = read_by_ase(line)
        # Six numbers of a stress, in ASE's own order, which its reader of these files refuses.
        if theirs is None:
            assert any(len(ours["numbers"].get(key, [])) == 9 for key in ("stress", "virial")) or is_remark(line), (line, ours)
            counts["six numbers or a remark"] += 1
            continue
        numbers, atoms = theirs
        assert set(numbers) == set(ours["numbers"]), (line, numbers, ours)
        for key, value in numbers.items():
            own = numpy.array([float(number) for number in ours["numbers"][key]])
            full = value[[0, 5, 4, 5, 1, 3, 4, 3, 2]] if key.startswith("REF_stress") and len(value) == 6 else value
            assert numpy.array_equal(own, full, equal_nan=True), (line, key, value, own)
        assert numpy.array_equal(atoms.cell.array.ravel(), [float(number) for number in ours["cell"]], equal_nan=True), (line, ours)
        assert atoms.pbc.tolist() == ours["periodic"], (line, ours)
        counts["same"] += 1
    print(*(f"{count} {what}" for what, count in sorted(counts.items())), sep="; ")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
