"""Documents promise only what a named test proves, show only commands that a test runs, and link to what exists."""
import posixpath
import re

from .tree import IGNORED_AT_ROOT, Finding

PROOF_TABLE = "docs/proofs.md"
# Names the test that runs each command of the documents; see the file's first lines.
COMMANDS = "tests/house/doc_commands.txt"
PROOFS = ("run", ".ci/run", "./test")
DOCUMENT = re.compile(r"^(README\.md|CONTRIBUTING\.md|docs/[\w/-]+\.md)$")

# [text](target "title"), and [name]: target on a line of its own.
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s+(\S+)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")


def check(tree):
    yield from _rows(tree)
    yield from _commands(tree)
    for file in tree.files:
        if file.language == "markdown":
            yield from _links(tree, file)


def _rows(tree):
    """Every row of every table in docs/proofs.md names in its last column at least one test, and only tests that exist."""
    file, rows = tree.by_path.get(PROOF_TABLE), 0
    lines = file.lines if file else []
    for number, line in enumerate(lines, 1):
        header = number < len(lines) and re.match(r"^\|[\s:|-]+\|$", lines[number])
        if not line.startswith("|") or header or re.match(r"^[\s:|-]+$", line):
            continue
        rows += 1
        tests = re.findall(r"`([^`]+)`", line.strip().strip("|").split("|")[-1])
        if not tests:
            yield Finding(PROOF_TABLE, number, "proof-row", "name in the last column, in backquotes, the test that proves this row")
        for test in tests:
            if not _is_test(tree, test):
                yield Finding(PROOF_TABLE, number, "proof-row", f"`{test}` is no file under tests/, no Suite.Case and no house.NAME")
    if rows == 0:
        yield Finding(PROOF_TABLE, 1, "proof-row", "write a table of what terrace does, whose last column names the tests that prove it")


def _is_test(tree, name):
    if name.startswith("tests/"):
        return tree.exists(name)
    if name.endswith(".*"):
        return any(test.startswith(name[:-1]) for test in tree.gtest_names)
    return name in tree.gtest_names or name in tree.house_tests


def commands(file):
    """(line, command) of each command in the ```sh blocks of a document; continued lines are joined, remarks left out."""
    inside, begun, parts = False, 0, []
    for number, line in enumerate(file.lines, 1):
        text = line.strip()
        if text.startswith("```"):
            inside = not inside and text == "```sh"
        elif inside and text and not text.startswith("#"):
            begun = begun if parts else number
            text = re.sub(r"\s+#\s.*$", "", text.removeprefix("$ "))
            parts.append(text.removesuffix("\\").strip())
            if not text.endswith("\\"):
                yield begun, " ".join(parts)
                parts = []


def _commands(tree):
    listed = {}
    if file := tree.by_path.get(COMMANDS):
        for number, line in enumerate(file.lines, 1):
            if line and not line.startswith("#"):
                proof, _, command = line.partition(": ")
                if proof == "first":
                    continue
                listed[command] = number
                if proof not in PROOFS and not _is_test(tree, proof):
                    yield Finding(COMMANDS, number, "doc-command", f"'{proof}' is neither a test nor one of: {', '.join(PROOFS)}")
    used = set()
    for document in tree.files:
        if DOCUMENT.match(document.path):
            for number, command in commands(document):
                used.add(command)
                if command not in listed:
                    yield Finding(document.path, number, "doc-command", f"no test runs '{command}': list it in {COMMANDS}")
    for command in listed.keys() - used:
        yield Finding(COMMANDS, listed[command], "doc-command", "no document shows this command any more; remove the line")


def _links(tree, file):
    inside = False
    for number, line in enumerate(file.lines, 1):
        if line.strip().startswith("```"):
            inside = not inside
        elif not inside:
            for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                target = match[1] or match[2]
                if SCHEME.match(target):
                    continue
                path, _, anchor = target.partition("#")
                whole_path = _target_path(file, target) if path else file.path
                document = tree.by_path.get(whole_path)
                if path and not _is_in_tree(tree, whole_path):
                    yield Finding(file.path, number, "dead-link", f"'{target}' is not in the tree; write the path relative to this file")
                elif anchor and document and document.language == "markdown" and anchor not in _anchors(document):
                    yield Finding(file.path, number, "dead-link", f"'{target}': {document.path} has no heading of this name")


def _anchors(file):
    """The names of a document's headings as GitHub makes them, and those that it gives itself."""
    anchors, inside = set(re.findall(r'<a name="([^"]+)">', file.text)), False
    for line in file.lines:
        heading = re.match(r"#+ (.*)", line)
        if line.startswith("```"):
            inside = not inside
        elif heading and not inside:
            text = re.sub(r"<[^>]*>", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1].strip()))
            anchors.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return anchors


def _target_path(file, target):
    path = target.partition("#")[0]
    return posixpath.normpath(path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(file.path), path))


def _is_in_tree(tree, path):
    return path.split("/")[0] not in IGNORED_AT_ROOT | {".."} and tree.exists(path)
