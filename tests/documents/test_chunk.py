"""Chunks are exact slices that follow the structure of a text and stay where they are."""

from __future__ import annotations

import random
import re
import time
from bisect import bisect_right

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kb_documents.chunk import by_structure
from kb_text.api import token_count

from kb_framework.api import ChunkText, Extracted

MAXIMUM = 512
SENTENCE = "pods run on nodes and every node has a kubelet which talks to the server about its containers volumes secrets"
VOCABULARY = tuple(re.findall(r"\w+", SENTENCE))


def chunked(
    text: str, markdown: bool = True, pages: tuple[tuple[int, int], ...] = ()
) -> list[ChunkText]:
    return by_structure(
        Extracted(text, media="markdown" if markdown else "text", markdown=markdown, pages=pages)
    )


def paths(chunks: list[ChunkText]) -> list[list[str]]:
    return [chunk.metadata["heading_path"] for chunk in chunks]


def sentences(count: int, seed: int = 0) -> str:
    chance = random.Random(seed)
    return " ".join(
        " ".join(chance.choices(VOCABULARY, k=12)).capitalize() + "." for _ in range(count)
    )


def locate(text: str, chunks: list[ChunkText]) -> list[tuple[int, int]]:
    """Where each chunk is, found by its lines alone and after the one before it."""
    starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
    spans, position = [], 0
    for chunk in chunks:
        begin = max(position, starts[chunk.metadata["line_start"] - 1])
        start = text.index(chunk.content, begin)
        end = start + len(chunk.content)
        assert bisect_right(starts, start) == chunk.metadata["line_start"]
        assert bisect_right(starts, end - 1) == chunk.metadata["line_end"]
        spans.append((start, end))
        position = end
    return spans


def check(text: str, chunks: list[ChunkText]) -> None:
    position = 0
    for chunk, (start, end) in zip(chunks, locate(text, chunks), strict=True):
        assert not text[position:start].strip()
        assert chunk.content.strip()
        assert chunk.metadata["token_count"] == token_count(chunk.content) <= MAXIMUM
        position = end
    assert not text[position:].strip()


lines = st.one_of(
    st.sampled_from(
        [
            "",
            "# One",
            "## Two {#2} #",
            "### 3",
            "Title",
            "===",
            "---",
            "```python",
            "```",
            "~~~",
            "<!--",
            "-->",
        ]
    ),
    st.sampled_from(
        [
            "",
            "- item",
            "  - deep",
            "12. no",
            "> quoted",
            "| a | b |",
            "|---|---|",
            "***",
            "\tcode",
            "#",
            "a:",
        ]
    ),
    st.text(alphabet="ab .!?\t\u3000가나か漢字、。é\u0301😀\u200d#`|-*", max_size=60),
    st.builds(
        lambda word, count: word * count,
        st.sampled_from(["word ", "가", "x", "字。", "Ends. "]),
        st.integers(1, 700),
    ),
)


@settings(max_examples=150)
@given(st.lists(lines, max_size=60), st.booleans())
def test_chunks_are_exact_slices_that_hold_all_text_once_and_in_order(
    parts: list[str], markdown: bool
):
    text = "\n".join(parts)
    check(text, chunked(text, markdown))


@settings(max_examples=100)
@given(st.text(max_size=3000), st.booleans())
def test_any_text_can_be_chunked(text: str, markdown: bool):
    check(text, chunked(text, markdown))


def test_an_empty_text_has_no_chunks():
    assert chunked("") == chunked(" \n\n\t\n") == []


def test_a_chunk_knows_its_headings_and_lines():
    text = f"# Guide\n\n{sentences(10)}\n\n## Install {{#install}} ##\n\n{sentences(10, 1)}\n\n## Use\n\n{sentences(10, 2)}\n"
    chunks = chunked(text)
    assert paths(chunks) == [["Guide"], ["Guide", "Install"], ["Guide", "Use"]]
    assert [(chunk.metadata["line_start"], chunk.metadata["line_end"]) for chunk in chunks] == [
        (1, 3),
        (5, 7),
        (9, 11),
    ]


def test_a_heading_without_text_opens_the_chunk_after_it():
    chunks = chunked(
        f"# Guide\n\n## Install\n\n### Linux\n\n{sentences(12)}\n\n### Other\n\n{sentences(12, 1)}"
    )
    assert paths(chunks) == [["Guide", "Install", "Linux"], ["Guide", "Install", "Other"]]
    assert chunks[0].content.startswith("# Guide\n\n## Install\n\n### Linux\n\n")


def test_no_chunk_ends_with_a_heading():
    parts = [f"{'##' if n % 17 else '#'} Section {n}\n\n{sentences(n % 17, n)}" for n in range(200)]
    text = "\n\n".join(parts)
    assert not [chunk for chunk in chunked(text) if chunk.content.splitlines()[-1].startswith("#")]


def test_long_sections_do_not_share_a_chunk_though_both_would_fit():
    chunks = chunked(f"# One\n\n{sentences(7)}\n\n# Two\n\n{sentences(7, 1)}")
    assert paths(chunks) == [["One"], ["Two"]]


def test_small_sections_share_a_chunk_under_their_common_heading():
    text = "# Questions\n\n" + "\n\n".join(
        f"## Question {n}\n\n{sentences(1, n)}" for n in range(60)
    )
    chunks = chunked(text)
    assert 5 <= len(chunks) <= 12
    assert paths(chunks) == [["Questions"]] * len(chunks)
    assert all(chunk.content.startswith("#") for chunk in chunks)


def test_a_small_end_joins_what_is_before_it():
    chunks = chunked(f"# One\n\n{sentences(14)}\n\nThat is all.")
    assert len(chunks) == 1
    assert chunks[0].content.endswith("That is all.")


def test_underlined_headings_count_as_headings():
    chunks = chunked(f"Guide\n=====\n\n{sentences(10)}\n\nInstall\n---\n\n{sentences(10, 1)}")
    assert paths(chunks) == [["Guide"], ["Guide", "Install"]]


@pytest.mark.parametrize(
    "opening, closing", [("```sh", "```"), ("~~~~", "~~~~"), ("<!-- note", "-->")]
)
def test_headings_inside_code_and_comments_are_none(opening: str, closing: str):
    chunks = chunked(
        f"# Real\n\n{opening}\n# not a heading\n\nTitle\n===\n{closing}\n\n{sentences(40)}"
    )
    assert paths(chunks) == [["Real"]] * len(chunks)
    assert len(chunks) > 1


def test_a_fence_below_the_maximum_is_never_cut():
    fence = (
        "```python\n"
        + "\n\n".join(f"x{n} = call(first, second)  # {n}" for n in range(40))
        + "\n```"
    )
    chunks = chunked(f"# Code\n\n{sentences(9)}\n\n{fence}\n\n{sentences(9, 1)}")
    assert [chunk for chunk in chunks if fence in chunk.content]


def test_a_fence_above_the_maximum_is_cut_between_lines():
    code = [f"x{n} = call(first, second)  # {n}" for n in range(400)]
    chunks = chunked("```python\n" + "\n".join(code) + "\n```")
    assert len(chunks) > 5
    assert [line for chunk in chunks for line in chunk.content.split("\n")] == [
        "```python",
        *code,
        "```",
    ]


def test_a_long_table_is_cut_between_rows_and_the_rest_knows_its_head():
    rows = [f"| pod-{n} | Running on node {n} |" for n in range(300)]
    chunks = chunked("\n".join(["See the table:", "| Name | State |", "|---|:-:|", *rows]))
    assert len(chunks) > 5
    assert "table_header" not in chunks[0].metadata
    assert {chunk.metadata["table_header"] for chunk in chunks[1:]} == {"| Name | State |"}
    assert [line for chunk in chunks for line in chunk.content.split("\n")][3:] == rows


def test_words_are_not_cut():
    text = " ".join(random.Random(4).choices(VOCABULARY, k=20_000))
    assert " ".join(chunk.content for chunk in chunked(text)) == text


def test_letters_keep_their_accents():
    text = "e\u0301" * 4_000
    assert all(chunk.content.startswith("e") for chunk in chunked(text))


@pytest.mark.parametrize("character", ["가", "漢", "か"])
def test_a_character_of_a_script_without_spaces_is_a_token(character: str):
    assert token_count(character * 100) == 100
    chunks = chunked(character * 2_000)
    assert sum(len(chunk.content) for chunk in chunks) == 2_000
    assert all(len(chunk.content) <= MAXIMUM for chunk in chunks)


def test_english_has_about_four_characters_a_token():
    assert token_count("word " * 100) == 125


def test_pages_are_cited():
    first, second, third = sentences(8), sentences(30, 1), "Short."
    text = f"{first}\n\n{second}\n\n{third}"
    starts = (0, len(first) + 2, len(first) + len(second) + 4)
    chunks = chunked(text, markdown=False, pages=((starts[0], 7), (starts[1], 8), (starts[2], 9)))
    cited = [(chunk.metadata["page"], chunk.metadata["page_end"]) for chunk in chunks]
    assert cited[0] == (7, 7)
    assert cited[-1] == (8, 9)
    assert set(cited[1:-1]) <= {(8, 8)}


def test_front_matter_is_no_chunk_but_its_lines_count():
    from kb_documents.extract import markdown

    chunks = by_structure(markdown(b"---\ntitle: T\n---\n\nBody.\n", "a.md"))
    assert [(chunk.content, chunk.metadata["line_start"]) for chunk in chunks] == [("Body.", 5)]


def documents() -> dict[str, list[str]]:
    chance = random.Random(7)
    prose = [sentences(chance.randrange(1, 12), n) for n in range(150)]
    return {
        "sections": [
            f"{'##' if n % 5 else '#'} Part {n}\n\n{text}" if n % 2 else text
            for n, text in enumerate(prose)
        ],
        "paragraphs": prose,
        "equal paragraphs": [sentences(10, n)[:600].rsplit(" ", 1)[0] for n in range(150)],
        "questions": [f"## Question {n}\n\n{sentences(2, n)}" for n in range(300)],
        "korean": [
            " ".join("".join(chance.choices("가나다라마바사아자차", k=3)) for _ in range(30))
            for _ in range(150)
        ],
    }


def kept(before: list[ChunkText], after: list[ChunkText]) -> float:
    texts = {chunk.content for chunk in after}
    return sum(chunk.content in texts for chunk in before) / len(before)


@pytest.mark.parametrize("kind", documents())
@pytest.mark.parametrize("place", [0, 40, 75, 110])
def test_an_edit_leaves_most_chunks_as_they_are(kind: str, place: int):
    parts = documents()[kind]
    before = chunked("\n\n".join(parts))
    assert len(before) > 25
    edited = [*parts[:place], parts[place] + " Changed.", *parts[place + 1 :]]
    inserted = [*parts[:place], sentences(5, 999), *parts[place:]]
    assert kept(before, chunked("\n\n".join(edited))) >= 0.8
    assert kept(before, chunked("\n\n".join(inserted))) >= 0.8


def test_a_line_more_in_a_log_leaves_most_chunks_as_they_are():
    log = [
        f"2024-01-01 12:{n // 60 % 60:02}:{n % 60:02} INFO request {n} was handled"
        for n in range(2_000)
    ]
    before = chunked("\n".join(log), markdown=False)
    after = chunked(
        "\n".join([*log[:1000], "2024-01-01 12:00:00 WARN something", *log[1000:]]), markdown=False
    )
    assert kept(before, after) >= 0.8


def test_a_word_more_in_an_endless_line_leaves_most_chunks_as_they_are():
    words = random.Random(3).choices(VOCABULARY, k=20_000)
    after = [*words[:9_000], "inserted", *words[9_000:]]
    assert kept(chunked(" ".join(words)), chunked(" ".join(after))) >= 0.8


HOSTILE = {
    "one word": "a" * 1_000_000,
    "words": "alpha beta " * 90_000,
    "hangul": "가나다라" * 100_000,
    "marks": "e" + "\u0301" * 200_000,
    "a log": "2024-01-01 INFO request handled in 3 ms\n" * 25_000,
    "headings": "# h\n" * 50_000,
    "dashes": "-" * 1_000_000,
    "spaces": "a" + " " * 1_000_000 + "b",
    "line feeds": "a" + "\n" * 1_000_000 + "b",
    "deep lists": "\n".join(" " * n + "- x" for n in range(1_500)),
    "quotes": "> " * 300_000,
    "an open fence": "```\n" + "code line\n" * 50_000,
    "open comments": "<!--\n" * 50_000,
    "pipes": "|" * 300_000 + "\n" + "|-" * 150_000,
    "a heading without end": "# " + "x " * 300_000,
    "quotation marks": "." + '"' * 500_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_takes_linear_time(kind: str):
    # Seconds at most; anything quadratic would take hours.
    started = time.process_time()
    chunks = chunked(HOSTILE[kind])
    assert time.process_time() - started < 10
    assert all(chunk.metadata["token_count"] <= MAXIMUM for chunk in chunks)
    assert sum(len("".join(chunk.content.split())) for chunk in chunks) == len(
        "".join(HOSTILE[kind].split())
    )
