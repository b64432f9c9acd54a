"""Reading C sources for the rule checks: files, includes, string literals."""

import os
import re

ROOMS = ("bench", "harness", "kernels")

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)


def files(root, endings=(".c", ".h")):
    """Paths below the rooms, relative to root, with '/', sorted."""
    found = []
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if name.endswith(endings):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    found.append(path.replace(os.sep, "/"))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    """Comments become blanks, so that lines and columns stay."""

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)


def includes(text):
    """(line, name, is_system) of every include."""
    text = without_comments(text)
    for match in _INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield line, match.group(1)[1:-1], match.group(1)[0] == "<"


def literals(text):
    """(offset, value) of every string literal, includes left out; escapes are kept as written."""
    text = _INCLUDE.sub(lambda m: " " * len(m.group(0)), without_comments(text))
    for match in _TOKEN.finditer(text):
        if match.group(0)[0] == '"':
            yield match.start(), match.group(0)[1:-1]
