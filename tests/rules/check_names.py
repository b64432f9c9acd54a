#!/usr/bin/env python3
"""No code asks for a backend by its name: what differs between backends is a field of its row.

check_names.py ROOT         exit 1 and one line per violation
check_names.py --self-test  every rule must name a violation planted in a small tree

The names are read from the rows in bench/profiles/. There they may stand, and in the texts of
bench/commands/option_table.c. Elsewhere no string literal may hold a backend's name as a word. Some
names are words of their own (none, mpi, null); these may not be compared with anything that is
called backend, mode, profile or engine.
"""

import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True

import rule  # noqa: E402
import source  # noqa: E402

ROWS = "bench/profiles/"
TEXTS = ("bench/commands/option_table.c",)
PLAIN_WORDS = {"none", "mpi", "null"}

_FIELD = re.compile(r'\.(?:name|backend)\s*=\s*"([^"]+)"')
_BACKEND = re.compile(r'\.backend\s*=\s*"([^"]+)"')
_COMPARISON = re.compile(r"\b(?:str(?:n|case|ncase)?cmp|memcmp|strstr)\s*\(")
_SUBJECT = re.compile(r"backend|mode|profile|engine", re.IGNORECASE)


def backend_names(root):
    """Names of backends and of backend:mode pairs."""
    names = set()
    for path in source.files(root):
        text = source.read(root, path)
        if path.startswith(ROWS + "rows") and _BACKEND.search(text):
            names |= set(_FIELD.findall(source.without_comments(text)))
    return names


def word(names):
    """Matches a name that is a word: not a part of "deepep_ll", but also "deepep:ll"."""
    ordered = sorted(names, key=len, reverse=True)
    return re.compile(r"(?<![\w])(?:%s)(?![\w])" % "|".join(map(re.escape, ordered)))


def arguments(text, start):
    """The text between the parentheses that open at `start`; string literals are stepped over."""
    depth, at, quoted = 0, start, False
    while at < len(text):
        if quoted:
            at += 1 if text[at] == "\\" else 0
            quoted = text[at:at + 1] != '"'
        elif text[at] == '"':
            quoted = True
        elif text[at] in "()":
            depth += 1 if text[at] == "(" else -1
            if depth == 0:
                return text[start + 1:at]
        at += 1
    return text[start + 1:]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def compared_words(text, plain):
    """(line, name) where a plain word is compared with something called backend, mode, ..."""
    text = source.without_comments(text)
    for match in _COMPARISON.finditer(text):
        inside = arguments(text, match.end() - 1)
        for name in plain:
            if '"%s"' % name in inside and _SUBJECT.search(inside.replace('"%s"' % name, "")):
                yield line_of(text, match.start()), name


def check(root):
    names = backend_names(root)
    if not names:
        return ["no backend rows below %s of %s" % (ROWS, root)]
    own_words, faults = word(names - PLAIN_WORDS), []
    for path in source.files(root):
        if path.startswith(ROWS) or path in TEXTS:
            continue
        text = source.read(root, path)
        for offset, value in source.literals(text):
            match = own_words.search(value)
            if match:
                faults.append('%s:%d: names the backend "%s"; make it a field of the profile' % (
                    path, line_of(text, offset), match.group(0)))
        for line, name in compared_words(text, names & PLAIN_WORDS):
            faults.append('%s:%d: compares with the backend "%s"; make it a field of the profile' % (
                path, line, name))
    return faults


# --- self-test ---

ROW = '{.name = "deepep:ll", .backend = "deepep"}, {.name = "null", .backend = "null"},\n' \
      '{.name = "mooncake", .backend = "mooncake"}, {.name = "none", .backend = "none"},\n'

GOOD = [
    '/* "mooncake" */ f("deepep_ll", "null");',
    'if (strcmp(text, "none") == 0) {',
    'json_string("none");',
]

BAD = [
    'if (strcmp(p->name, "mooncake") == 0) {',
    'static const char *const fast[] = {"deepep"};',
    'k3_fail(err, "only deepep:ll can do this");',
    'if (strcmp(text_of(cell, "backend"), "null") == 0) {',
    'return strcmp("none",\n    profile->name) != 0;',
]


def faults_of(line):
    with tempfile.TemporaryDirectory() as root:
        for path, text in ((ROWS + "rows_some.c", ROW), (TEXTS[0], '"mooncake,deepep:ll"'),
                           ("bench/report/file.c", line)):
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        return check(root)


def self_test():
    wrong = [line for line in GOOD if faults_of(line)] + [line for line in BAD if not faults_of(line)]
    for line in wrong:
        print("self-test: judged wrongly: " + line)
    print("self-test: %d lines, %d judged wrongly" % (len(GOOD) + len(BAD), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(rule.run(__doc__, check, self_test,
                      lambda root: "names: %d backends and modes" % len(backend_names(root))))
