"""Names say what a thing is: no catch-all words, no stages of the work."""
import ast
import re

from .tree import Finding

# Anywhere in a name.
CATCH_ALL = {"util", "utils", "helper", "helpers", "manager", "managers", "misc"}
# Refused as a whole name: "handle" and "process" say nothing alone, while process_group is the field's.
EMPTY = re.compile(r"^(handle|process|data\d+|do_it)$")
STAGE = re.compile(r"^(new|old|tmp|wip|draft|final)_|_(new|old|tmp|wip|draft|final)$|(^|_)(v\d+|phase_?\d+)(_|$)")

# A name that is declared: a type or "auto" before it, and what may follow a declared name behind it.
DECLARED = re.compile(r"(?P<type>[A-Za-z_][\w:]*|>|>\s*[&*]+|\w[&*]+)(?P<gap>\s+[&*]*|(?<=[&*]))(?P<name>[A-Za-z_]\w*)\s*(?=[=;,)({\[:])")
INTRODUCED = re.compile(r"\b(?:class|struct|union|namespace|using|enum(?:\s+class)?)\s+(?P<name>[A-Za-z_]\w*)\s*(?=[={:;]|final)")
NOT_TYPES = {"return", "else", "case", "throw", "new", "delete", "goto", "co_return", "co_yield", "and", "or", "not",
             "typedef", "public", "private", "protected", "namespace", "using", "operator", "class", "struct", "enum"}


def check(tree):
    for file in tree.files:
        yield from _path(file)
        if file.language == "cpp":
            yield from _cpp(file)
        elif file.language == "python":
            yield from _python(file)


def _path(file):
    for part in file.path.split("/"):
        stem = part.split(".")[0].replace("-", "_").lower()
        if problem := _problem(stem):
            yield Finding(file.path, 1, "banned-name", f"'{part}' {problem}")
        if STAGE.search(stem):
            yield Finding(file.path, 1, "stage-name", f"'{part}' is named after a stage of the work; name it after what it is")


def _problem(snake):
    words = snake.strip("_").split("_")
    if banned := CATCH_ALL.intersection(words):
        return f"holds the catch-all word '{sorted(banned)[0]}'; say what it does"
    if EMPTY.match(snake.strip("_")):
        return "says nothing; name what is handled, or what the data are"
    return ""


def snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _cpp(file):
    for match in INTRODUCED.finditer(file.code):
        yield from _identifier(file, file.line_of(match.start("name")), match["name"])
    for match in DECLARED.finditer(file.code):
        if match["type"] not in NOT_TYPES:
            yield from _identifier(file, file.line_of(match.start("name")), match["name"])


def _python(file):
    for node in ast.walk(ast.parse(file.text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from _identifier(file, node.lineno, node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from _identifier(file, node.lineno, node.id)
        elif isinstance(node, ast.arg):
            yield from _identifier(file, node.lineno, node.arg)


def _identifier(file, line, name):
    if problem := _problem(snake_case(name)):
        yield Finding(file.path, line, "banned-name", f"'{name}' {problem}")
