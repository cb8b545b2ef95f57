"""Globs and the rules of .gitignore files, as regular expressions that take time in proportion to the path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# No system has longer paths. A longer rule matches nothing.
_LONGEST_RULE = 4096


def glob_regex(pattern: str, *, git: bool = False) -> str:
    """Return a glob as a regular expression: `*` and `?` stay within a folder, `**` is any number of folders, `[a-c]`, `[!a]`.

    With `git`, a backslash quotes the next character and `[^a]` is `[!a]`. Matching takes time in proportion to the path: where
    another wildcard follows, the first place that fits the text between the two is as good as any later one, and an atomic group
    keeps the others from being tried.
    """
    # Between `**/`: a list of folders, each a list of the texts between its stars, in pieces.
    blocks: list[list[list[list[str]]]] = [[[[]]]]
    index, rest_of_path = 0, False
    while index < len(pattern):
        at_start = index == 0 or pattern[index - 1] == "/"
        folder = blocks[-1][-1]
        if at_start and pattern.startswith("**/", index):
            blocks.append([[[]]])
            index += 3
        elif at_start and pattern[index:] == "**":
            rest_of_path = True
            index += 2
        elif pattern[index] == "*":
            folder.append([])
            while pattern[index : index + 1] == "*":
                index += 1
        elif git and pattern[index] == "\\" and index + 1 < len(pattern):
            folder[-1].append(re.escape(pattern[index + 1]))
            index += 2
        elif pattern[index] == "?":
            folder[-1].append("[^/]")
            index += 1
        elif pattern[index] == "/":
            folder[-1].append("/")
            blocks[-1].append([[]])
            index += 1
        elif (
            pattern[index] == "["
            and (
                end := pattern.find(
                    "]", index + 2 + _is_negated(pattern[index + 1 : index + 2], git=git)
                )
            )
            != -1
        ):
            folder[-1].append(_one_of(pattern[index + 1 : end], git=git))
            index = end + 1
        else:
            folder[-1].append(re.escape(pattern[index]))
            index += 1
    first, *others = ["".join(map(_folder, block)) for block in blocks]
    deeper = [f"(?>(?:[^/]++/)*?{block})" for block in others]
    if others and not rest_of_path:
        # Nothing follows but the end of the path.
        deeper[-1] = f"(?:[^/]++/)*{others[-1]}"
    return "(?s:" + first + "".join(deeper) + (".+" if rest_of_path else "") + ")"


def _folder(between: list[list[str]]) -> str:
    """One folder of a glob: the texts, with a star between each two."""
    first, *others = map("".join, between)
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{text})" for text in others[:-1]) + f"[^/]*{others[-1]}"


def _is_negated(inside: str, *, git: bool) -> bool:
    return inside[:1] == "!" or (git and inside[:1] == "^")


def _one_of(inside: str, *, git: bool) -> str:
    """Return a class of characters, `a-c` or `!x`: ranges that make sense, and everything else as it is."""
    negated = _is_negated(inside, git=git)
    inside = inside[negated:]
    items, index = [], 0
    while index < len(inside):
        if (
            inside[index + 1 : index + 2] == "-"
            and index + 2 < len(inside)
            and inside[index] <= inside[index + 2]
        ):
            items.append(f"{re.escape(inside[index])}-{re.escape(inside[index + 2])}")
            index += 3
        else:
            items.append(re.escape(inside[index]))
            index += 1
    return f"(?!/)[{'^' if negated else ''}{''.join(items)}]"


class Rule(NamedTuple):
    """One line of a .gitignore file: paths that it is about, and whether it takes them in or (`!`) out again."""

    regex: re.Pattern[str]
    takes: bool


class Rules:
    """Patterns as in .gitignore files. The last one that is about a path decides.

    With `contents`, a rule about a folder is also about everything in it. Without, as in git, who walks a tree does not look into
    a folder that was ignored.
    """

    def __init__(self, lines: Iterable[str], *, contents: bool = False) -> None:
        self._rules = tuple(rule for line in lines if (rule := rule_of(line, contents=contents)))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str) -> bool | None:
        """Return whether a path is taken, None where no pattern is about it. A folder's path ends in a slash."""
        return next(
            (rule.takes for rule in reversed(self._rules) if rule.regex.fullmatch(path)), None
        )


def rule_of(line: str, *, contents: bool = False) -> Rule | None:
    """Return the rule of a line; None for a comment, an empty line, and one that can match nothing."""
    line = line.rstrip("\r\n")
    bare = line.rstrip(" ")
    if len(bare) < len(line) and (len(bare) - len(bare.rstrip("\\"))) % 2:
        # The first of the spaces at the end is quoted.
        bare += " "
    if bare.startswith("#") or len(bare) > _LONGEST_RULE:
        return None
    takes, bare = not bare.startswith("!"), bare.removeprefix("!")
    path = bare.removesuffix("/")
    if not path.strip("/"):
        return None
    only_folders = path != bare
    anywhere = "/" not in path
    deeper = "/" if only_folders else "/?"
    if contents:
        deeper = "/.*" if only_folders else "(?:/.*)?"
    regex = glob_regex(f"**/{path}" if anywhere else path.removeprefix("/"), git=True)
    return Rule(re.compile(f"(?s:{regex}{deeper})"), takes)
