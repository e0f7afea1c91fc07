"""Comments say why, in whole sentences: a first line on what the file does, no code kept in comments, no notes to self."""
import ast
import re

from .tree import Finding

# Written apart so that this file does not hold them.
NOTE_TO_SELF = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")

CPP_CODE = re.compile(
    r"^\s*(#\s*(include|define|if|ifdef|endif|pragma)\b"
    r"|\}?\s*(return|break|continue|throw|delete|using|auto|goto)\b.*;\s*$"
    r"|(\}\s*)?(if|for|while|switch|else if)\s*\(.*\)\s*(\{|.*;)\s*$"
    r"|[\w:.>\-\[\]]+\s*(=|\+=|-=|\*=|/=)\s*[^=].*;\s*$"
    r"|(static |const |constexpr )*(int|u?int\d+_t|size_t|float|double|bool|char|void|std::[\w:<>, ]+|at::\w+)\b.*[;{]\s*$"
    r"|[\w:.>\-]+(<.*>)?\(.*\);\s*$"
    r"|[\w:<>,&* ]+\(.*\)\s*(const|noexcept|override)?\s*\{\s*\}?$"
    r"|[{}]\s*;?\s*$)")
SHELL_CODE = re.compile(r"^(if \[|fi$|done$|esac$|echo [\"'$]|export \w+=|\w+=[\"$'\w/]+$|set -[a-z]+$)")
CMAKE_CODE = re.compile(r"^(set|list|file|message|include|if|elseif|else|endif|foreach|option|install|(add|target|find|enable)_\w+)\s*\(.*\)\s*$")

# Openings of comments that leave the reader to find the subject in the name below, or nowhere.
HALF_SENTENCE = re.compile(r"(Of|What|The same|Those)\b")


def check(tree):
    for file in tree.files:
        yield from _first_line(file)
        if file.language in ("cpp", "python", "shell", "cmake", "toml"):
            yield from _notes(file)
            yield from _code(file)
            yield from _openings(file)


def _first_line(file):
    lines = [line for line in file.lines if not line.startswith("#!")]
    first = lines[0].lstrip() if lines else ""
    start = {"cpp": ("// ",), "python": ("# ", '"""'), "shell": ("# ",), "cmake": ("# ",), "toml": ("# ",)}.get(file.language)
    if start and not first.startswith(start):
        yield Finding(file.path, 1, "first-line", "begin the file with a comment that says what it does")


def _notes(file):
    for number, line in enumerate(file.lines, 1):
        if match := NOTE_TO_SELF.search(line):
            yield Finding(file.path, number, "note-to-self", f"'{match[0]}': do it now, or state the limitation that a user meets")


def _openings(file):
    comments = file.cpp_comments if file.language == "cpp" else file.hash_comments
    lines = {number for number, _ in comments}
    for number, text in comments:
        if number - 1 not in lines and (match := HALF_SENTENCE.match(text)):
            yield Finding(file.path, number, "half-sentence", f"'{match[0]} ..': say what the thing below is, with its subject first")


def _code(file):
    if file.language == "cpp":
        is_code, lines = CPP_CODE.match, file.cpp_comments
    elif file.language == "python":
        is_code, lines = _is_python, file.hash_comments
    elif file.language == "cmake":
        is_code, lines = CMAKE_CODE.match, file.hash_comments
    elif file.language == "shell":
        is_code, lines = SHELL_CODE.match, file.hash_comments
    else:
        return
    for number, text in lines:
        if is_code(text):
            yield Finding(file.path, number, "commented-out-code", "remove it: git keeps what was")


def _is_python(text):
    try:
        body = ast.parse(text.strip()).body
    except SyntaxError:
        return False
    statements = (ast.Assign, ast.AugAssign, ast.Import, ast.ImportFrom, ast.Return, ast.Delete, ast.Raise, ast.Assert)
    return any(isinstance(s, statements) or isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) for s in body)
