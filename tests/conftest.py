"""Fixtures of the whole suite; the same that plugin authors use."""

import signal

import hypothesis
import pytest

pytest_plugins = ["kb_testing.fixtures"]

# `--store postgres` runs what uses a database, but for these: what they are about is the same on every store. A test in them that
# is about the store all the same has the mark `both_stores`.
ABOVE_THE_STORE = {
    "access/test_mcp_over_http.py": "sessions of MCP over HTTP",
    "bulk/test_asking.py": "asking a person through a client of MCP",
    "contracts/test_docs.py": "what pages say",
    "contracts/test_examples.py": "what help says",
    "contracts/test_goldens.py": "what surfaces look like",
    "contracts/test_help.py": "what help says",
    "contracts/test_messages.py": "what messages say",
    "contracts/test_house_rules.py": "what the source may do",
    "edges/test_http_input.py": "what bodies may hold, which is checked before the store is asked",
    "edges/test_words.py": "words of a command line",
    "edges/test_cli.py": "what commands take and print",
    "edges/test_mcp.py": "what tools take and answer",
    "contracts/test_nothing_freezes.py": "patterns and functions of text",
    "edges/test_serve.py": "addresses, signals and connections of a server",
    "models/test_models.py": "models and their files",
    "models/test_onnx.py": "models and their files",
    "models/test_openai.py": "asking an endpoint",
    "formats/test_corpus.py": "making text of files",
    "formats/test_formats.py": "making text of files",
    "formats/test_worker.py": "making text of files",
    "host/test_extras.py": "how the package was installed",
    "hooks/test_chunkers.py": "taking text apart",
    "hooks/test_reader.py": "reading files",
    "hooks/test_what_plugins_return.py": "what parts of plugins may return",
    "host/test_silent_plugins.py": "how plugins are loaded, fail and are shown",
    "access/test_attacks.py": "who is let in, and how a server is reached",
    "access/test_local_users.py": "who is let in",
    "host/test_plugins.py": "how plugins are loaded, fail and are shown",
    "host/test_logs.py": "the log file",
    "host/test_settings.py": "settings, which are read before a store is opened",
    "host/test_testing.py": "how commands of tests are run",
    "knowledge/test_generation.py": "asking an endpoint",
    "search/test_terminal.py": "what a terminal shows",
}


# Examples are the same on every machine, and may take as long there as they take.
hypothesis.settings.register_profile(
    "kb", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("kb")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="Write the files that surfaces are compared with.",
    )


def pytest_configure() -> None:
    # Where the tests were started in the background, a shell has Ctrl-C ignored, and so would every command that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    reason = ABOVE_THE_STORE.get("/".join(item.path.parts[-2:]))
    if reason and item.get_closest_marker("both_stores") is None:
        item.add_marker(pytest.mark.above_the_store(reason))
