"""Fixtures of the whole suite; the same that plugin authors use."""

import signal

import pytest

pytest_plugins = ["kb_framework.testing"]

# `--store postgres` runs what uses a database, but for these: what they are about is the same on every store.
ABOVE_THE_STORE = {
    "contracts/test_docs.py": "what pages say",
    "contracts/test_help.py": "what help says",
    "contracts/test_house_rules.py": "what the source may do",
    "edges/test_serve.py": "addresses, signals and connections of a server",
    "embeddings/test_models.py": "models and their files",
    "embeddings/test_onnx.py": "models and their files",
    "embeddings/test_openai.py": "asking an endpoint",
    "formats/test_corpus.py": "making text of files",
    "formats/test_formats.py": "making text of files",
    "formats/test_worker.py": "making text of files",
    "host/test_settings.py": "settings, which are read before a store is opened",
    "search/test_terminal.py": "what a terminal shows",
}


def pytest_configure() -> None:
    # Where the tests were started in the background, a shell has Ctrl-C ignored, and so would every command that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    if reason := ABOVE_THE_STORE.get("/".join(item.path.parts[-2:])):
        item.add_marker(pytest.mark.above_the_store(reason))
