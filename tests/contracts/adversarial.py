# ruff: noqa: T201
"""Feeds adversarial text to every regular expression and every function of text that the packages have.

Run as a program, in a process with a CPU limit. Prints the cases that cost more than their size deserves, one per line, and
the number of patterns and functions as the last line. Nothing is listed by hand that can be found: patterns are read from the
modules and from their sources, functions by their signature.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

# Small sizes choose the cases that are worth the large one, which decides. A linear pattern takes some milliseconds for
# the large size, a quadratic one many seconds.
SMALL, LARGE = 4_000, 128_000
SUSPICIOUS_SECONDS, SUSPICIOUS_GROWTH, ALLOWED_SECONDS = 0.0004, 7, 2.0
# From four times the small size to the large one: 8 is linear, 64 quadratic. A fast quadratic one stays below what is allowed.
NOTICEABLE_SECONDS, QUADRATIC_GROWTH = 0.2, 28

UNITS = (
    *"0 a«»“\"'[](){}<>*_-#`~.,;:/\\|=+?!@&%$^\n\t\r가中éあ\u0301\u0e01\U0001f600\x13\x0b\u2028",
    "a ", "a,", "A. ", "0.", "0,0", "-0", "\r\n", " \n", "a\n", "> ", ">\n", ">>> ", "- ", "* ", "1. ", "# ", "| ", "|-", "a|",
    "\n\n", "---\n", "...\n", "+++\n", "```\n", "~~~", "<!--", "-->", "<a", "<a ", "<a>", "</a>", "<p><b>", "<script", "<?xml",
    "<![CDATA[", "]]>", "![", "![](", "](", "[a](", "[[", "{#", "{\\", "\\'", "\\a", "\\bin9 ", "**/", "**", "*a", "a/", "a/**/",
    "[a-", "[!", "//", "//a:", "@a", "a@", "From ", "From a b", "a:", "a: ", "00:00",
    "é ", "e\u0301", "a\u0301", "가 ", "中a", "\u200d",
    "&amp;", "&", "=?", "%41", "a=", "a-", "ab", "aA", "a0", "0a", "a_", "a.b", "a\"",
    "\"a", "«a", "said ", "NEAR(", "AND ", "-a ", "title:a ",
)  # fmt: skip
ENDS = ("", "\x01")

METHODS = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")
# The names of parameters that hold text from outside. No `path` or `name`: such a function may do more than look at it.
TEXTS = frozenset(
    {
        "text",
        "data",
        "query",
        "line",
        "words",
        "word",
        "head",
        "markdown",
        "content",
        "marked",
        "body",
        "pattern",
        "html",
    }
)
# They hand the bytes to a library that reads them in threads of its own, in a process that has limits.
NATIVE = ("kb_formats.office", "kb_formats.pdf")
# Patterns that are built from arguments, and where they are checked instead.
BUILT = {
    "kb_text.language": "a class of letters, repeated",
    "kb_research.suggest": "module constants, which are found as such",
    "kb_documents.globs": "globs, which are checked as a function below",
    "kb_documents.filters": "globs, which are checked as a function below",
    "kb_console.shown": "words of a question, escaped, at most twenty",
    "kb_maintenance.restore": "a constant, escaped",
}


def packages() -> list[str]:
    points = importlib.metadata.entry_points(group="kb_framework")
    named = {
        point.module.split(".")[0]
        for point in points
        if point.dist and point.dist.name == "kb-framework"
    }
    return ["kb_framework", *sorted(named)]


def modules() -> Iterator[types.ModuleType]:
    for package in packages():
        module = importlib.import_module(package)
        yield module
        for item in pkgutil.walk_packages(module.__path__, f"{package}."):
            if not item.name.endswith("__main__"):
                yield importlib.import_module(item.name)


# Patterns


def patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for inner in (*value, *value.values()):
            yield from patterns_in(inner, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from patterns_in(inner, depth - 1)
    elif depth and isinstance(value, type) and value.__module__.startswith("kb_"):
        for inner in vars(value).values():
            yield from patterns_in(inner, depth - 1)


def uses(trees: list[ast.Module]) -> dict[str, set[str]]:
    """The methods of patterns that are called on a name, anywhere."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = (
                    node.value.id
                    if isinstance(node.value, ast.Name)
                    else getattr(node.value, "attr", "")
                )
                found.setdefault(name, set()).add(node.attr)
    return found


def source_of(module: types.ModuleType) -> str:
    """Return a module's source, also that of an empty file."""
    return Path(module.__file__ or "").read_text(encoding="utf-8")


def all_patterns() -> tuple[dict[tuple[re.Pattern[Any], str], str], list[str]]:
    """Each pattern with a way it is used, and a place that has it; and the places that cannot be read."""
    loaded = [(module, ast.parse(source)) for module in modules() if (source := source_of(module))]
    used = uses([tree for _, tree in loaded])
    found: dict[tuple[re.Pattern[Any], str], str] = {}
    unread: list[str] = []
    for module, tree in loaded:
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                for method in used.get(name) or METHODS[:4]:
                    found.setdefault((pattern, method), f"{module.__name__}.{name}")
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if not (
                isinstance(called, ast.Attribute)
                and isinstance(called.value, ast.Name)
                and called.value.id == "re"
            ):
                continue
            if called.attr not in (*METHODS, "compile") or not isinstance(node, ast.Call):
                continue
            place = f"{module.__name__}:{node.lineno}"
            flags = next((word.value for word in node.keywords if word.arg == "flags"), None)
            if called.attr == "compile" and len(node.args) > 1:
                flags = node.args[1]
            try:
                source, number = (
                    eval(compile(ast.Expression(part), place, "eval"), vars(module)) if part else 0
                    for part in (node.args[0], flags)
                )
                pattern = re.compile(source, number)
            except NameError:
                unread.append(f"{place} {ast.unparse(node.args[0])}")
                continue
            methods = METHODS[:4] if called.attr == "compile" else (called.attr,)
            if called.attr == "compile" and any(pattern == known for known, _ in found):
                continue
            for method in methods:
                found.setdefault((pattern, method), place)
    return found, unread


CANDIDATES = "a0 \n\"'<>[](){}-_*#.,;:/\\|~=+?!@A가中é«\x13\x00"


def in_set(items: list[Any], char: str) -> bool:
    negate = bool(items) and items[0][0] is sre.NEGATE
    categories = {
        sre.CATEGORY_DIGIT: str.isdecimal, sre.CATEGORY_SPACE: str.isspace, sre.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    }  # fmt: skip
    opposite = {
        sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT,
        sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
        sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
    }
    for kind, value in items[negate:]:
        if (kind is sre.LITERAL and chr(value) == char) or (
            kind is sre.RANGE and value[0] <= ord(char) <= value[1]
        ):
            return not negate
        if kind is sre.CATEGORY and (
            categories[value](char)
            if value in categories
            else not categories[opposite[value]](char)
        ):
            return not negate
    return negate


def members(items: list[Any]) -> list[str]:
    own = [
        chr(value if kind is sre.LITERAL else value[0])
        for kind, value in items
        if kind in (sre.LITERAL, sre.RANGE)
    ]
    return [char for char in dict.fromkeys([*own, *CANDIDATES]) if in_set(items, char)][:3] or ["a"]


def sample(nodes: Any) -> str:
    """A text that the nodes match, as short as they allow."""
    made = ""
    for kind, value in nodes:
        if kind is sre.LITERAL:
            made += chr(value)
        elif kind is sre.NOT_LITERAL:
            made += "b" if value != ord("b") else "c"
        elif kind is sre.ANY:
            made += "a"
        elif kind is sre.IN:
            made += members(value)[0]
        elif kind is sre.BRANCH:
            made += sample(value[1][0])
        elif kind is sre.SUBPATTERN:
            made += sample(value[3])
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            made += sample(value[2]) * max(1, min(value[0], 40))
        elif kind is sre.ATOMIC_GROUP:
            made += sample(value)
    return made


def inner(kind: Any, value: Any) -> list[Any]:
    if kind is sre.BRANCH:
        return list(value[1])
    if kind is sre.SUBPATTERN:
        return [value[3]]
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [value[2]]
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    return [value] if kind is sre.ATOMIC_GROUP else []


def attacks(nodes: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What comes once, and what is repeated after it, for each part of a pattern."""
    nodes = list(nodes)
    for index, (kind, value) in enumerate(nodes):
        start = before + sample(nodes[:index])
        piece = sample([(kind, value)])
        for unit in (piece, start + piece):
            if unit:
                yield "", unit
                yield start, unit
        if kind is sre.IN:
            for char in members(value):
                yield "", char
                yield start, char
        if kind is sre.BRANCH and len(value[1]) > 12:
            # A list of words: the first and the last stand for all.
            value = (value[0], [value[1][0], value[1][-1]])
        for part in inner(kind, value):
            yield from attacks(part, start)


def texts_for(pattern: re.Pattern[Any]) -> list[tuple[str, str]]:
    source = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    own = attacks(sre_parser.parse(source, pattern.flags & ~re.DEBUG))
    return list(dict.fromkeys([*(("", unit) for unit in UNITS if len(unit) == 1), *own]))


# Running them


class TooSlow(Exception):
    pass


def cost(call: Callable[[Any], object], text: Any, allowed: float) -> float:
    """CPU seconds, at most those allowed."""
    signal.setitimer(signal.ITIMER_VIRTUAL, allowed)
    began = time.process_time()
    try:
        call(text)
    except TooSlow:
        return allowed
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever a function raises
        # Bad text may be refused: what matters is when.
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def check(
    place: str, call: Callable[[Any], object], texts: list[tuple[str, str]], as_bytes: bool = False
) -> None:
    for start, unit in texts:
        for end in ENDS:

            def made(
                size: int, start: str = start, unit: str = unit, end: str = end
            ) -> str | bytes:
                text = start + unit * (size // len(unit)) + end
                return text.encode("utf-8", "replace") if as_bytes else text

            small = cost(call, made(SMALL), ALLOWED_SECONDS)
            if small < SUSPICIOUS_SECONDS:
                continue
            larger = cost(call, made(4 * SMALL), ALLOWED_SECONDS)
            if larger < ALLOWED_SECONDS and larger < SUSPICIOUS_GROWTH * small:
                continue
            if all(is_slow(cost(call, made(LARGE), ALLOWED_SECONDS), larger) for _ in range(3)):
                print(f"SLOW {place}: {start[:40]!r} + {unit[:40]!r} * n + {end!r}", flush=True)
                return


def is_slow(largest: float, larger: float) -> bool:
    """Processors that are shared take up to three times as long, now and then; what is not linear always does."""
    return largest >= ALLOWED_SECONDS or (
        largest > NOTICEABLE_SECONDS and largest > QUADRATIC_GROWTH * larger
    )


def run(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method in ("match", "fullmatch", "search"):
        return getattr(pattern, method)
    return lambda text: sum(1 for _ in pattern.finditer(text))


def functions() -> Iterator[tuple[str, Callable[[Any], object], bool]]:
    """Functions of one text or of bytes from outside, and readers of files: `data` and `name`."""
    for module in modules():
        if module.__name__ in NATIVE:
            continue
        for name, function in vars(module).items():
            plain = inspect.unwrap(function) if callable(function) else None
            if (
                not isinstance(plain, types.FunctionType)
                or plain.__module__ != module.__name__
                or inspect.iscoroutinefunction(plain)
            ):
                continue
            required = [
                item
                for item in inspect.signature(plain).parameters.values()
                if item.default is item.empty
            ]
            kinds = [item.annotation for item in required]
            place = f"{module.__name__}.{name}()"
            if len(required) == 1 and required[0].name in TEXTS and kinds[0] in ("str", "bytes"):
                yield place, plain, kinds[0] == "bytes"
            elif [item.name for item in required] == ["data", "name"] and kinds == ["bytes", "str"]:
                yield place, lambda data, plain=plain: plain(data, "file.txt"), True


def entries() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """What takes a text in another way than as its only argument."""
    from kb_documents.chunk import by_structure
    from kb_documents.globs import Rules, glob_regex
    from kb_search.snippet import Matcher, cut_snippet
    from kb_text.api import Text, index_fields

    from kb_framework.api import Extracted

    deep = "a/" * 450 + "b.md"
    yield "chunks of a text", lambda text: by_structure(Extracted(text))
    yield "chunks of Markdown", lambda text: by_structure(Extracted(text, markdown=True))
    yield "words of a chunk", lambda text: index_fields((text[:200], text[:200], text))
    yield "a glob", lambda text: re.compile(glob_regex(text[:1000])).fullmatch(deep)
    for pattern in ("**/" * 150 + "x", "**/a/" * 100 + "x", "*a" * 200 + "x", "**/*a*/" * 60 + "x"):
        yield f"a path for {pattern[:9]}", re.compile(glob_regex(pattern)).fullmatch
    for way in (False, True):
        yield (
            "a rule of an ignore file",
            lambda text, way=way: Rules([text[:4000]], contents=way).decide(deep),
        )
        for pattern in ("*a" * 60 + "b", "**/a/" * 60 + "x", "**/*a*/" * 60, "/*a" * 30 + "/**"):
            yield f"a path for the rule {pattern[:9]}", Rules([pattern], contents=way).decide
    yield "snippets", lambda text: cut_snippet(text, Matcher("a 0 river").find(Text(text)), 300)
    yield (
        "snippets of a question",
        lambda text: cut_snippet("a river " * 500, Matcher(text).find(Text("a river " * 500)), 300),
    )


def exhaust(function: Callable[[Any], object]) -> Callable[[Any], object]:
    def call(text: Any) -> None:
        answer = function(text)
        if inspect.isgenerator(answer):
            for _ in answer:
                pass

    return call


def main() -> None:
    signal.signal(signal.SIGVTALRM, stop)
    found, unread = all_patterns()
    for place in unread:
        if place.partition(":")[0] not in BUILT:
            print(f"UNREAD {place}: make it a module constant, or say in BUILT what checks it")
    for (pattern, method), place in found.items():
        check(
            f"{place} {method} {pattern.pattern[:60]!r}",
            run(pattern, method),
            texts_for(pattern),
            isinstance(pattern.pattern, bytes),
        )
    own = [*functions(), *((place, call, False) for place, call in entries())]
    for place, function, as_bytes in own:
        # The last one is what a crash is about.
        print(place, file=sys.stderr, flush=True)
        check(place, exhaust(function), [("", unit) for unit in UNITS], as_bytes)
    print(len({pattern for pattern, _ in found}), "patterns", len(own), "functions")


def stop(*_: object) -> None:
    raise TooSlow


if __name__ == "__main__":
    main()
