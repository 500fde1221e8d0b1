#!/usr/bin/env python3
"""Checks the licence of every crate that the hub is built of, tests included.

A crate passes when its SPDX expression can be met with the licences below alone. They are permissive, or weak
copyleft by file (MPL-2.0), which asks nothing of this project's own files. A list of its own, rather than a
tool: cargo has the facts already, and a tool would take minutes to build.
"""

import json
import re
import subprocess
import sys

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

TOKEN = re.compile(r"\(|\)|[^\s()]+(?:\s+WITH\s+[^\s()]+)?")


def allowed(expression):
    """Whether an SPDX expression can be met; the older `A/B` means `A OR B`."""
    tokens = TOKEN.findall(expression.replace("/", " OR "))
    met = alternatives(tokens)
    if tokens:
        raise ValueError(f"not an SPDX expression: {expression}")
    return met


def alternatives(tokens):
    met = conjunction(tokens)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        met = conjunction(tokens) or met
    return met


def conjunction(tokens):
    met = term(tokens)
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        met = term(tokens) and met
    return met


def term(tokens):
    if not tokens:
        raise ValueError("an SPDX expression ends too early")
    token = tokens.pop(0)
    if token != "(":
        return " ".join(token.split()).removesuffix("+") in ALLOWED
    met = alternatives(tokens)
    if not tokens or tokens.pop(0) != ")":
        raise ValueError("a parenthesis is not closed")
    return met


def check_the_check():
    assert allowed("MIT/Apache-2.0") and allowed("GPL-3.0 OR (MIT AND ISC)") and allowed("MPL-2.0+")
    assert allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only")
    assert not allowed("GPL-3.0-only") and not allowed("MIT AND AGPL-3.0-only") and not allowed("GPL-2.0 WITH X OR GPL-3.0")


def main():
    check_the_check()
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    refused = [p for p in packages if not p["license"] or not allowed(p["license"])]
    for package in refused:
        print(f"{package['name']} {package['version']}: licence {package['license'] or '(none)'} is not allowed")
    print(f"licences: {len(packages) - len(refused)} crates allowed, {len(refused)} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
