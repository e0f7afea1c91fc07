"""Files fit a few screens, functions fit one."""
import ast
import re

from .tree import Finding

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
SIZED = {"cpp", "python", "shell", "cmake"}


def check(tree):
    for file in tree.files:
        if file.language not in SIZED:
            continue
        if len(file.lines) > MAX_FILE_LINES:
            yield Finding(file.path, MAX_FILE_LINES + 1, "file-size",
                          f"{len(file.lines)} lines; split it by what it does: {MAX_FILE_LINES} are the most, under 300 the aim")
        for name, first, last in functions(file):
            if last - first + 1 > MAX_FUNCTION_LINES:
                yield Finding(file.path, first, "function-size",
                              f"{name} has {last - first + 1} lines; a function fits a screen: {MAX_FUNCTION_LINES} are the most")


def functions(file):
    """(name, first line, last line) of each function of a file."""
    if file.language == "cpp":
        return [(name, file.line_of(start), file.line_of(end)) for name, start, end in cpp_functions(file.code)]
    if file.language == "python":
        return list(_python_functions(file.text))
    if file.language == "shell":
        return list(_shell_functions(file.lines))
    return []


def cpp_functions(code):
    """(name, offset of the head, offset of the closing brace) in blanked code. Functions within classes and namespaces
    count, lambdas belong to the function around them."""
    found = []
    stack = []  # of "scope", "list" or ("function", name, start)
    head_start = 0
    for match in re.finditer(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|[{};]", code, re.M):
        symbol = match[0]
        inside = bool(stack) and stack[-1] != "scope"
        if symbol == "{":
            stack.append("inner" if inside else _kind(code, head_start, match.start()))
        elif symbol == "}":
            opened = stack.pop() if stack else "scope"
            if isinstance(opened, tuple):
                found.append((opened[1], opened[2], match.start()))
            if opened == "list":
                continue  # the head goes on behind the braces of an initializer
        if not stack or stack[-1] == "scope":
            head_start = match.end()
    return found


def _kind(code, start, end):
    head = code[start:end]
    if re.search(r"(^|[\s>)])(namespace|class|struct|union|enum)\b(?![^<]*>\s*\w+\s*\()[^()=]*$", head):
        return "scope"
    if re.search(r"[\w>]$", head) and "(" in head and not re.search(r"\b(const|noexcept|override|final|try)$", head):
        return "list"  # member_{value} between a constructor's colon and its body
    if "(" not in head or head.rstrip().endswith(("=", ",", "(")):
        return "list"
    name = re.search(r"([\w~:<>]+|operator\s*\S+)\s*\(", head)
    return ("function", name[1] if name else "function", start + len(head) - len(head.lstrip()))


def _python_functions(text):
    try:
        nodes = ast.walk(ast.parse(text))
    except SyntaxError as error:
        raise SystemExit(f"lint: a Python file does not parse: {error}")
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def _shell_functions(lines):
    name, first = None, 0
    for number, line in enumerate(lines, 1):
        if match := re.match(r"^(?:function )?([\w-]+)\s*\(\)\s*\{", line):
            name, first = match[1], number
        elif line.startswith("}") and name:
            yield name, first, number
            name = None
