"""The files of the tree as the rules see them: text, comments apart from code, and what a finding is."""
import dataclasses
import functools
import os
import pathlib
import re

# Folders that git ignores at the root, and git's own.
IGNORED_AT_ROOT = {".git", ".deps", "build", "runs", "data"}
CPP = {".cpp", ".h", ".cu", ".cuh"}
PLANNED_MODELS = re.compile(r"^terrace/models/(\w+/)?((settings|cost)/|planned_)")
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".json", ".in", ".yml", ".yaml", ""}


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    advice: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.advice}"


class SourceFile:
    """One file. `path` is relative to the root, with slashes."""

    def __init__(self, root, path):
        self.path = path
        self.name = path.rsplit("/", 1)[-1]
        self.suffix = pathlib.PurePosixPath(path).suffix
        self.text = (root / path).read_text(encoding="utf-8", errors="replace")
        self.lines = self.text.splitlines()

    @functools.cached_property
    def language(self):
        first = self.lines[0] if self.lines else ""
        if self.suffix in CPP:
            return "cpp"
        if self.suffix == ".py" or first.startswith("#!") and "python" in first:
            return "python"
        if self.suffix == ".sh" or first.startswith("#!") and "sh" in first:
            return "shell"
        if self.suffix == ".cmake" or self.name == "CMakeLists.txt":
            return "cmake"
        return {".md": "markdown", ".toml": "toml"}.get(self.suffix, "other")

    @functools.cached_property
    def code(self):
        """C++ with comments, strings and characters blanked out; line numbers and columns stay."""
        return _blank(self.text, _CPP_COMMENT_OR_STRING, keep_comments=False)

    @functools.cached_property
    def cpp_comments(self):
        """(line, text) of each // comment that has its line to itself."""
        pattern = re.compile(r"^\s*//+\s?(.*)$")
        without_strings = _blank(self.text, _CPP_COMMENT_OR_STRING, keep_comments=True).splitlines()
        return [(n, m[1]) for n, line in enumerate(without_strings, 1) if (m := pattern.match(line))]

    @functools.cached_property
    def hash_comments(self):
        """(line, text) of each # comment that has its line to itself, in Python, shell, CMake and TOML."""
        pattern = re.compile(r"^\s*#(?!!)\s?(.*)$")
        return [(n, m[1]) for n, line in enumerate(self.lines, 1) if (m := pattern.match(line))]

    def room(self):
        """The room under terrace/ that the file belongs to, or ""."""
        return room_of(self.path)

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1


def room_of(path):
    """The room of a path such as terrace/mesh/mesh.h, or ""; the part of models that needs no torch is one of its own."""
    if PLANNED_MODELS.match(path):
        return "planned_models"
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "terrace" else ""


_CPP_COMMENT_OR_STRING = re.compile(
    r'R"(?P<mark>[^()\s]{0,16})\((?:.|\n)*?\)(?P=mark)"|//[^\n]*|/\*(?:.|\n)*?\*/'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'')


def _blank(text, pattern, keep_comments):
    def replacement(match):
        if keep_comments and match[0].startswith("/"):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return pattern.sub(replacement, text)


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.files = []
        self.empty_folders = []
        for folder, folders, names in os.walk(self.root):
            relative = pathlib.Path(folder).relative_to(self.root).as_posix()
            at_root = relative == "."
            folders[:] = sorted(d for d in folders if d != "__pycache__" and not (at_root and d in IGNORED_AT_ROOT))
            if not folders and not names and not at_root:
                self.empty_folders.append(relative)
            for name in sorted(names):
                path = name if at_root else f"{relative}/{name}"
                if pathlib.PurePosixPath(name).suffix in TEXT and not (self.root / path).is_symlink():
                    self.files.append(SourceFile(self.root, path))
        self.by_path = {f.path: f for f in self.files}

    def cpp(self):
        return [f for f in self.files if f.language == "cpp"]

    def exists(self, path):
        return (self.root / path).exists()

    @functools.cached_property
    def rooms(self):
        """The rooms of CMakeLists.txt: name -> (rooms it may include, whether torch is linked, line)."""
        build = self.by_path.get("CMakeLists.txt")
        rooms = {}
        for match in re.finditer(r"^terrace_room\((\w+)([^)]*)\)", build.text if build else "", re.M):
            words = match[2].split()
            start = words.index("ROOMS") + 1 if "ROOMS" in words else len(words)
            end = words.index("LINK") if "LINK" in words else len(words)
            rooms[match[1]] = (set(words[start:end]), "TORCH" in words, build.line_of(match.start()))
        return rooms

    @functools.cached_property
    def gtest_names(self):
        """Suite.Case of every test in tests/."""
        pattern = re.compile(r"^\s*(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", re.M)
        return {f"{m[1]}.{m[2]}" for f in self.cpp() if f.path.startswith("tests/") for m in pattern.finditer(f.text)}

    @functools.cached_property
    def house_tests(self):
        """The names of the tests that CMake adds by house_test()."""
        build = self.by_path.get("tests/house/CMakeLists.txt")
        return {f"house.{name}" for name in re.findall(r"house_test\((\w+)", build.text if build else "")}
