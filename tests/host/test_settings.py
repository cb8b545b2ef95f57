"""H7: settings, where they come from, and what an unusable one does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_framework.app import load_plugin_settings
from kb_framework.bootstrap import Source, read_bootstrap, variable_of
from kb_framework.client import connect
from kb_framework.errors import KBError
from kb_framework.plugins import Plugins
from kb_framework.settings_loading import Setting

WEATHER = """
from pydantic import Field, SecretStr

from kb_framework import api, hookimpl
from kb_framework.api.settings import Section
from kb_framework.api.settings import StringList, WholeNumber


class WeatherSettings(Section):
    city: str = Field("Oslo", description="Where.")
    days: WholeNumber = Field(3, ge=1, le=14, description="How far to look.")
    stations: StringList = Field([], description="Which ones, comma-separated.")
    token: SecretStr = Field(SecretStr("unset-token"), min_length=8, description="For the provider.")


class WeatherService:
    def __init__(self, settings):
        self.settings = settings


@hookimpl
def kb_settings():
    return [api.SettingsSection("weather", f"{__name__}:WeatherSettings")]


@hookimpl
def kb_services():
    return [api.Service("forecast", f"{__name__}:WeatherService")]
"""

NOT_A_PERCENTAGE = [
    "abc",
    "-1",
    "101",
    "70.5",
    "70.0",
    "",
    "true",
    " 70 ",
    "1e1",
    "７０",
    "0x10",
    "1_0",
]

COMMANDS = [
    ["list"],
    ["note", "text"],
    ["search", "text"],
    ["bulk-remove", "--tags", "x", "--yes"],
    ["jobs"],
    ["config"],
    ["doctor"],
    ["schema"],
    ["plugins"],
    ["plugins", "disable", "bulk"],
    ["quickstart"],
    ["serve", "--port", "0"],
    ["mcp"],
    ["mcp", "--cost"],
]


def shown(kb_here: Callable[..., Any], variable: str) -> tuple[Any, str]:
    """A setting's value and source, as `kb config --json` shows them."""
    answer = kb_here("config", "--json")
    assert answer.returncode == 0, answer.stderr
    found = {item["variable"]: item for item in json.loads(answer.stdout)["settings"]}
    return found[variable]["value"], found[variable]["source"]


def write_toml(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "kb.toml").write_text(text, encoding="utf-8")


def write_dotenv(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / ".env").write_text(text, encoding="utf-8")


def assert_refused_in_one_line(answer: Any, *words: str) -> None:
    assert answer.returncode == 2, answer
    assert answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert len(lines) == 1, answer.stderr
    for word in words:
        assert word in lines[0]


# Precedence


def test_the_environment_wins_over_the_data_folder_over_the_users_folder(
    kb_here, kb_home, tmp_path, monkeypatch
) -> None:
    name = "KB_BULK_SAFETY_PERCENT"
    assert shown(kb_here, name) == (70, "default")

    of_the_user = tmp_path / "kb-config" / "kb"
    of_the_user.mkdir(parents=True)
    write_toml(of_the_user, "bulk_safety_percent = 5")
    assert shown(kb_here, name) == (5, str(of_the_user / "kb.toml"))

    write_dotenv(of_the_user, "KB_BULK_SAFETY_PERCENT=6\n")
    assert shown(kb_here, name) == (6, str(of_the_user / ".env"))

    write_toml(kb_home, "bulk_safety_percent = 10")
    assert shown(kb_here, name) == (10, str(kb_home / "kb.toml"))

    write_dotenv(kb_home, "KB_BULK_SAFETY_PERCENT=20\n")
    assert shown(kb_here, name) == (20, str(kb_home / ".env"))

    monkeypatch.setenv(name, "30")
    assert shown(kb_here, name) == (30, "environment")


def test_each_value_comes_from_its_own_source(kb_here, kb_home, monkeypatch) -> None:
    write_toml(kb_home, 'bulk_safety_percent = 10\nlog_level = "error"')
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT") == (10, str(kb_home / "kb.toml"))
    assert shown(kb_here, "KB_LOG_LEVEL") == ("debug", "environment")
    assert shown(kb_here, "KB_BUSY_TIMEOUT") == (30.0, "default")
    assert shown(kb_here, "KB_DATA_DIR") == (str(kb_home), "environment")


def test_another_toml_file_can_be_named(kb_here, kb_home, tmp_path, monkeypatch) -> None:
    write_toml(kb_home, "bulk_safety_percent = 10")
    (tmp_path / "other.toml").write_text("bulk_safety_percent = 15", encoding="utf-8")
    monkeypatch.setenv("KB_CONFIG_FILE", str(tmp_path / "other.toml"))

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT") == (15, str(tmp_path / "other.toml"))


def test_a_toml_file_that_is_named_but_missing_stops_the_start(
    kb_here, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("KB_CONFIG_FILE", str(tmp_path / "missing.toml"))

    assert_refused_in_one_line(kb_here("list"), "KB_CONFIG_FILE", "missing.toml")


def test_the_data_folder_can_be_set_in_a_named_toml_file(kb_here, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("KB_DATA_DIR")
    (tmp_path / "other.toml").write_text(f'data_dir = "{tmp_path / "elsewhere"}"', encoding="utf-8")
    monkeypatch.setenv("KB_CONFIG_FILE", str(tmp_path / "other.toml"))

    assert kb_here("note", "text").returncode == 0
    assert list((tmp_path / "elsewhere" / "files").glob("??/*"))


def test_a_tilde_in_the_data_folder_is_the_home_folder(kb_here, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("KB_DATA_DIR", "~/knowledge")

    assert kb_here("note", "text").returncode == 0
    assert list((tmp_path / "person" / "knowledge" / "files").glob("??/*"))
    assert not (tmp_path / "~").exists()


def test_an_empty_data_folder_never_means_the_current_folder(
    kb_here, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "person" / "data"))
    monkeypatch.setenv("KB_DATA_DIR", "")

    kb_here("note", "text")

    assert not (tmp_path / "kb.sqlite").exists()


def test_the_value_is_what_the_engine_uses(kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "33")
    with connect() as engine:
        preview = engine.bulk_preview("delete", doc_type="note")

    assert preview["threshold"] == 33


@pytest.mark.parametrize("value", ["0", "70", "100"])
def test_whole_numbers_from_0_to_100_are_percentages(kb_here, monkeypatch, value) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", value)

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT") == (int(value), "environment")


def test_lists_are_comma_separated_in_the_environment_and_arrays_in_toml(
    kb_here, kb_home, monkeypatch
) -> None:
    write_toml(kb_home, 'allowed_hosts = ["kb.example", "b.example"]')
    assert shown(kb_here, "KB_ALLOWED_HOSTS") == (
        ["kb.example", "b.example"],
        str(kb_home / "kb.toml"),
    )

    monkeypatch.setenv("KB_ALLOWED_HOSTS", "a.example, c.example,")
    assert shown(kb_here, "KB_ALLOWED_HOSTS") == (["a.example", "c.example"], "environment")


def test_config_is_a_table_for_people(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    lines = kb_here("config").stdout.splitlines()

    assert lines[0].split("\t") == ["variable", "value", "source", "description"]
    assert any(line.split("\t")[:3] == ["KB_LOG_LEVEL", "debug", "environment"] for line in lines)


# The current folder


def every_setting() -> list[Setting]:
    """All settings of the host and the plugins that are installed."""
    bootstrap = read_bootstrap({"KB_DATA_DIR": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"})
    return list(load_plugin_settings(bootstrap, Plugins(bootstrap)).values)


def test_no_setting_is_read_from_the_current_folder(kb_here, kb_home) -> None:
    before = json.loads(kb_here("config", "--json").stdout)["settings"]
    Path(".env").write_text(
        "".join(f"{item.variable}=1\n" for item in every_setting()), encoding="utf-8"
    )
    Path("kb.toml").write_text(
        "".join(f"{item.key} = 1\n" for item in every_setting()), encoding="utf-8"
    )

    assert json.loads(kb_here("config", "--json").stdout)["settings"] == before


@pytest.mark.parametrize(
    "line", ["KB_ENGINE_URL=http://127.0.0.1:1", "export KB_DATA_DIR=.", "  kb_api_key = x"]
)
def test_a_dotenv_that_is_ignored_is_mentioned_once(kb_here, line) -> None:
    Path(".env").write_text(f"OTHER=1\n{line}\n", encoding="utf-8")

    answer = kb_here("list")

    assert answer.returncode == 0
    assert answer.stderr.count("--config .env") == 1


@pytest.mark.parametrize("text", [b"OTHER=1\n# KB_EMBEDDER=none\n", b"", b"\xff\xfe\x00"])
def test_a_dotenv_of_another_program_is_not_mentioned(kb_here, text) -> None:
    Path(".env").write_bytes(text)

    assert kb_here("list").stderr == ""


@pytest.mark.parametrize("arguments", [["--config", ".env", "config"], ["config", "--config=.env"]])
def test_a_dotenv_that_is_named_is_read(kb_here, kb_home, arguments) -> None:
    write_toml(kb_home, 'log_level = "error"')
    Path(".env").write_text("KB_BULK_SAFETY_PERCENT=20\n", encoding="utf-8")

    answer = kb_here(*arguments, "--json")

    found = {
        item["variable"]: (item["value"], item["source"])
        for item in json.loads(answer.stdout)["settings"]
    }
    assert answer.stderr == ""
    assert found["KB_BULK_SAFETY_PERCENT"] == (20, ".env")
    assert found["KB_LOG_LEVEL"] == ("info", "default"), (
        "a named file is read instead of the others"
    )


def test_the_data_folder_can_be_set_in_the_users_configuration_folder(
    kb_here, tmp_path, monkeypatch
) -> None:
    monkeypatch.delenv("KB_DATA_DIR")
    folder = tmp_path / "kb-config" / "kb"
    folder.mkdir(parents=True)
    write_toml(folder, f'data_dir = "{tmp_path / "elsewhere"}"')
    write_toml(tmp_path / "elsewhere", "bulk_safety_percent = 44")

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT")[0] == 44


def test_config_without_a_file_is_refused(kb_here) -> None:
    assert_refused_in_one_line(kb_here("list", "--config"), "--config")


# One name, one place


@pytest.mark.parametrize("setting", every_setting(), ids=lambda item: item.variable)
def test_a_setting_has_one_name_and_one_place(setting) -> None:
    *tables, name = setting.key.split(".")
    words = setting.variable.removeprefix("KB_").lower().split("_")
    table: dict[str, Any] = {tables[0]: {name: "x"}} if tables else {name: "x"}
    cuts = [("_".join(words[:cut]), "_".join(words[cut:])) for cut in range(1, len(words))]

    assert variable_of([*tables, name]) == setting.variable
    for spelled in [
        table,
        {"_".join(words): "x"},
        *({outer: {inner: "x"}} for outer, inner in cuts),
    ]:
        found = Source("file", spelled, is_table=True).find(setting.variable)
        assert found, spelled
        assert found[1] == "x"
        assert Source("file", spelled, is_table=True).variables() == {setting.variable}


def test_no_two_settings_share_a_name_or_a_place() -> None:
    settings = every_setting()

    assert (
        len({item.variable for item in settings})
        == len({item.key for item in settings})
        == len(settings)
    )


def test_a_table_of_the_file_may_hold_a_setting_of_the_host(kb_here, kb_home) -> None:
    write_toml(kb_home, "[bulk]\nsafety_percent = 50\nplan_seconds = 30")

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT")[0] == 50
    assert shown(kb_here, "KB_BULK_PLAN_SECONDS")[0] == 30


def test_a_setting_that_is_in_the_file_twice_is_refused(kb_here, kb_home) -> None:
    write_toml(kb_home, "bulk_safety_percent = 50\n[bulk]\nsafety_percent = 60")

    assert_refused_in_one_line(
        kb_here("list"), "KB_BULK_SAFETY_PERCENT", "twice", "bulk.safety_percent", "kb.toml"
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('embeder = "none"', "did you mean embedder (KB_EMBEDDER)?"),
        (
            "[bulk]\nsafty_percent = 50",
            "did you mean bulk_safety_percent (KB_BULK_SAFETY_PERCENT)?",
        ),
        ("[bulk]\nplan_second = 50", "did you mean bulk.plan_seconds (KB_BULK_PLAN_SECONDS)?"),
        ("[bulks]\nplan_seconds = 50", "did you mean bulk.plan_seconds (KB_BULK_PLAN_SECONDS)?"),
        ("[entirely]\nunheard_of = 50", "kb config lists the settings"),
        ("DATA_DIR_ = 3", "did you mean data_dir (KB_DATA_DIR)?"),
    ],
)
def test_a_key_of_the_file_that_no_setting_has_is_refused(kb_here, kb_home, text, meant) -> None:
    write_toml(kb_home, text)

    for command in (["list"], ["config"], ["plugins"]):
        assert_refused_in_one_line(kb_here(*command), "kb.toml is not a setting", meant)


def test_the_table_of_a_plugin_that_is_switched_off_may_stay(
    kb_here, kb_home, plugin, monkeypatch
) -> None:
    plugin("weather", WEATHER)
    write_toml(kb_home, '[weather]\ncity = "Bergen"')
    assert kb_here("list").returncode == 0

    monkeypatch.setenv("KB_DISABLED_PLUGINS", "weather")

    assert kb_here("list").returncode == 0


# Passwords in addresses

URLS = [item.variable for item in every_setting() if item.variable.endswith("URL")]
PASSWORDS = ["hunter2", "p@ss-hunter2", "hunter2/x", "%68unter2"]


@pytest.mark.parametrize("variable", URLS)
@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_in_an_address_is_never_shown(
    kb_here, kb_home, monkeypatch, variable, password
) -> None:
    scheme = {
        "KB_DATABASE_URL": "postgresql",
        "KB_DATABASE_REPLICA_URL": "postgresql",
        "KB_FILES_URL": "s3",
    }.get(variable, "http")
    monkeypatch.setenv("KB_DATABASE_URL", "postgresql://127.0.0.1:1/x")
    monkeypatch.setenv(variable, f"{scheme}://somebody:{password}@127.0.0.1:1/x")

    for command in (["config"], ["config", "--json"], ["list", "--debug"], ["doctor"], ["plugins"]):
        answer = kb_here(*command)
        assert "unter2" not in answer.stdout + answer.stderr, command


@pytest.mark.parametrize("variable", URLS)
@pytest.mark.parametrize(
    "address",
    [
        "http:me:hunter2@h/x",
        "http:/me:hunter2@h",
        "http://me:hun ter2@h",
        "me:hunter2@h",
        "//me:hunter2@h",
    ],
)
def test_a_password_in_what_is_almost_an_address_is_never_shown(
    kb_here, monkeypatch, variable, address
) -> None:
    monkeypatch.setenv(variable, address)

    for command in (["config"], ["config", "--json"], ["list", "--debug"]):
        answer = kb_here(*command)
        assert "ter2" not in answer.stdout + answer.stderr, command


@pytest.mark.parametrize("parameter", ["api_key", "token", "password", "sig"])
def test_a_secret_parameter_of_an_address_is_masked(kb_here, monkeypatch, parameter) -> None:
    monkeypatch.setenv("KB_EMBEDDINGS_URL", f"http://127.0.0.1:1/v1?{parameter}=hunter2&version=3")

    assert (
        shown(kb_here, "KB_EMBEDDINGS_URL")[0] == f"http://127.0.0.1:1/v1?{parameter}=***&version=3"
    )


def test_an_error_masks_passwords_and_keys_wherever_it_is_shown() -> None:
    key = "kb_" + "a" * 48
    sent = '"Authorization": "Basic hunter2"'
    error = KBError(
        f"no answer from http://me:hunter2@h/x#token=hunter2 with {key}, {sent}",
        hint="see postgresql://me:hunter2@h",
    )

    shown_anywhere = json.dumps(
        [error.flat(), error.v1(), error.envelope(), str(error), repr(error)]
    )
    assert "hunter2" not in shown_anywhere
    assert key not in shown_anywhere


# Keeping a setting

FILE = """# Mine.
log_level = "error"  # quiet; "#" is no comment
allowed_hosts = [
    "a.example",  # one
    "b.example",
]

# About bulk.
[bulk]
plan_seconds = 30
"""


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("embedder", "none", 'embedder = "none"'),
        ("KB_LOG_LEVEL", "debug", 'log_level = "debug"  # quiet; "#" is no comment'),
        ("bulk.safety_percent", "50", "bulk_safety_percent = 50"),
        ("bulk-plan-seconds", "60", "plan_seconds = 60"),
        ("allowed_hosts", "x, y", 'allowed_hosts = ["x", "y"]'),
        ("knowledge.hard_delete", "yes", "hard_delete = true"),
        ("knowledge.gate_score", "0.5", "gate_score = 0.5"),
        (
            "files_url",
            'file:///a "quoted" \\ name',
            'files_url = "file:///a \\"quoted\\" \\\\ name"',
        ),
    ],
)
@pytest.mark.parametrize("text", [FILE, None])
def test_a_setting_is_kept_and_the_rest_of_the_file_stays(
    kb_here, kb_home, name, value, line, text
) -> None:
    if text:
        write_toml(kb_home, text)
    answer = kb_here("config", "set", name, value, "--json")
    assert answer.returncode == 0, answer.stderr
    variable = json.loads(answer.stdout)["variable"]
    written = (kb_home / "kb.toml").read_text()

    assert shown(kb_here, variable)[1] == str(kb_home / "kb.toml")
    assert line in written if text else line.split("  #")[0] in written
    for comment in ("# Mine.", "# About bulk.", "[bulk]") if text else ():
        assert comment in written
    assert (kb_home / "kb.toml").stat().st_mode & 0o777 == 0o600

    assert kb_here("config", "unset", name).returncode == 0
    assert shown(kb_here, variable)[1] == "default"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["embeder", "none"], "did you mean embedder?"),
        (["bulk_safety_percent", "101"], "0 to 100"),
        (["bulk_safety_percent", "x"], "(given to this command)"),
        (["log_level", "loud"], "debug | info | warning | error"),
        (["embedder", "wordlama"], "there is no embedder 'wordlama'"),
        (["chunker", "none"], "there are: "),
        (["search_reranker", "best"], "late, none"),
        (["data_dir", "/x"], "KB_DATA_DIR"),
        (["engine_url", "http://me:hunter2@h"], "password"),
    ],
)
def test_a_setting_that_cannot_be_kept_changes_nothing(kb_here, kb_home, arguments, words) -> None:
    write_toml(kb_home, FILE)

    answer = kb_here("config", "set", *arguments)

    assert answer.returncode == 2
    assert words in answer.stderr
    assert "hunter2" not in answer.stderr
    assert (kb_home / "kb.toml").read_text() == FILE


def test_a_file_that_cannot_be_changed_is_left_alone(kb_here, kb_home) -> None:
    text = 'bulk = {plan_seconds = 30}\n"log_level" = "error"\n'
    write_toml(kb_home, text)

    answer = kb_here("config", "set", "log_level", "info")

    assert answer.returncode == 2
    assert "by hand" in answer.stderr
    assert (kb_home / "kb.toml").read_text() == text


def test_it_is_said_where_the_environment_wins(kb_here, kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    assert (
        "the environment has KB_LOG_LEVEL too"
        in kb_here("config", "set", "log_level", "info").stderr
    )


# Secrets


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_secrets_are_masked(kb_here, kb_home, monkeypatch, flags) -> None:
    monkeypatch.setenv("KB_API_KEY", "very-secret-key")

    answer = kb_here("config", *flags)

    assert answer.returncode == 0
    assert "very-secret" not in answer.stdout + answer.stderr
    assert "KB_API_KEY" in answer.stdout


def test_a_secret_of_a_plugin_is_masked(kb_here, plugin, monkeypatch) -> None:
    plugin("weather", WEATHER)
    monkeypatch.setenv("KB_WEATHER_TOKEN", "very-secret-token")

    answer = kb_here("config", "--json")

    assert "very-secret" not in answer.stdout + answer.stderr
    assert shown(kb_here, "KB_WEATHER_TOKEN")[1] == "environment"


def test_an_invalid_secret_is_refused_without_being_printed(kb_here, plugin, monkeypatch) -> None:
    plugin("weather", WEATHER)
    monkeypatch.setenv("KB_WEATHER_TOKEN", "hunter2")

    answer = kb_here("list")

    assert answer.returncode == 2
    assert "KB_WEATHER_TOKEN" in answer.stderr
    assert "hunter2" not in answer.stderr


# Invalid values


@pytest.mark.parametrize("value", NOT_A_PERCENTAGE)
def test_an_invalid_percentage_in_the_environment_stops_with_one_line(
    kb_here, monkeypatch, value
) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", value)

    assert_refused_in_one_line(
        kb_here("list"), "KB_BULK_SAFETY_PERCENT", repr(value), "0 to 100", "environment"
    )


@pytest.mark.parametrize("value", NOT_A_PERCENTAGE)
def test_an_invalid_percentage_in_dotenv_stops_with_one_line(kb_here, kb_home, value) -> None:
    write_dotenv(kb_home, f"KB_BULK_SAFETY_PERCENT='{value}'\n")

    assert_refused_in_one_line(
        kb_here("list"), "KB_BULK_SAFETY_PERCENT", repr(value), "0 to 100", ".env"
    )


@pytest.mark.parametrize(
    "value",
    ['"abc"', "-1", "101", "70.5", "70.0", '""', "true", '" 70 "', "[70]", "nan", "{a = 1}"],
)
def test_an_invalid_percentage_in_toml_stops_with_one_line(kb_here, kb_home, value) -> None:
    write_toml(kb_home, f"bulk_safety_percent = {value}")

    assert_refused_in_one_line(kb_here("list"), "KB_BULK_SAFETY_PERCENT", "0 to 100", "kb.toml")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("KB_BUSY_TIMEOUT", "soon", "a number"),
        ("KB_BUSY_TIMEOUT", "0", "above 0"),
        ("KB_BUSY_TIMEOUT", "-1", "above 0"),
        ("KB_BUSY_TIMEOUT", "nan", "above 0"),
        ("KB_BUSY_TIMEOUT", "inf", "3600"),
        ("KB_BUSY_TIMEOUT", "", "a number"),
        ("KB_LOG_LEVEL", "loud", "debug | info | warning | error"),
        ("KB_LOG_LEVEL", "", "debug | info | warning | error"),
        ("KB_LOG_LEVEL", "a\nb", "debug | info | warning | error"),
        ("KB_TRACE_HOOKS", "banana", "true or false"),
        ("KB_MAX_FILE_BYTES", "0", "from 1"),
        ("KB_MAX_FILE_BYTES", "1e6", "from 1"),
        ("KB_MAX_BODY_BYTES", "10", "from 1024"),
        ("KB_ENGINE_URL", "banana", "http://"),
        ("KB_ENGINE_URL", "ftp://127.0.0.1", "http://"),
    ],
)
def test_any_other_invalid_value_stops_with_one_line(
    kb_here, monkeypatch, name, value, allowed
) -> None:
    monkeypatch.setenv(name, value)

    assert_refused_in_one_line(kb_here("list"), name, repr(value), allowed)


@pytest.mark.parametrize(
    "line", ["busy_timeout = true", "max_file_bytes = 5.0", 'log_level = ["info"]', "embedder = 3"]
)
def test_a_value_of_the_wrong_type_in_toml_stops_with_one_line(kb_here, kb_home, line) -> None:
    write_toml(kb_home, line)

    assert_refused_in_one_line(kb_here("list"), f"KB_{line.split(' ')[0].upper()}")


@pytest.mark.new_database
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_invalid_value_stops_every_command(kb_here, kb_home, monkeypatch, arguments) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "101")

    assert_refused_in_one_line(kb_here(*arguments), "KB_BULK_SAFETY_PERCENT", "'101'", "0 to 100")
    assert not kb_home.exists()


def test_an_invalid_value_stops_the_process_with_exit_code_2(kb_run) -> None:
    assert_refused_in_one_line(
        kb_run("list", KB_BULK_SAFETY_PERCENT="abc"), "KB_BULK_SAFETY_PERCENT", "'abc'", "0 to 100"
    )


def test_an_invalid_value_with_json_is_one_error_object_on_stderr(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "abc")

    answer = kb_here("list", "--json")

    assert (answer.returncode, answer.stdout) == (2, "")
    error = json.loads(answer.stderr)
    assert (error["schema_version"], error["code"]) == ("error.v1", "config_invalid")
    assert "KB_BULK_SAFETY_PERCENT" in error["message"]


def test_help_is_given_although_a_value_is_invalid(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "abc")

    assert kb_here("--help").returncode == 0


def test_broken_toml_stops_with_one_line_that_names_the_file(kb_here, kb_home) -> None:
    write_toml(kb_home, "bulk_safety_percent = = 3")

    assert_refused_in_one_line(kb_here("list"), str(kb_home / "kb.toml"), "TOML", "line 1")


def test_toml_that_is_not_utf_8_stops_with_one_line_that_names_the_file(kb_here, kb_home) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / "kb.toml").write_bytes(b'embedder = "\xff\xfe"')

    assert_refused_in_one_line(kb_here("list"), str(kb_home / "kb.toml"))


def test_a_dotenv_that_is_not_utf_8_stops_with_one_line_that_names_the_file(
    kb_here, kb_home
) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / ".env").write_bytes(b"KB_EMBEDDER=\xff\xfe\n")

    assert_refused_in_one_line(kb_here("list"), ".env")


def test_a_byte_order_mark_in_toml_is_no_reason_to_crash(kb_here, kb_home) -> None:
    kb_home.mkdir(exist_ok=True)
    (kb_home / "kb.toml").write_bytes(b"\xef\xbb\xbfbulk_safety_percent = 12")

    answer = kb_here("config", "--json")

    assert answer.returncode in (0, 2)
    assert "unexpected" not in answer.stderr


# Unknown variables


def test_config_reports_variables_that_no_setting_has(kb_here, kb_home, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCNT", "50")
    write_dotenv(kb_home, "KB_LOGLEVEL=debug\n")

    answer = kb_here("config", "--json")

    assert json.loads(answer.stdout)["unknown"] == ["KB_BULK_SAFETY_PERCNT", "KB_LOGLEVEL"]
    assert "KB_BULK_SAFETY_PERCNT" in answer.stderr
    assert "did you mean KB_LOG_LEVEL?" in answer.stderr


def test_doctor_warns_of_variables_that_no_setting_has(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCNT", "50")

    answer = kb_here("doctor", "--json")

    checks = [check for check in json.loads(answer.stdout)["checks"] if check["name"] == "settings"]
    assert answer.returncode == 0
    assert [check["state"] for check in checks] == ["warning"]
    assert "KB_BULK_SAFETY_PERCNT (did you mean KB_BULK_SAFETY_PERCENT?)" in checks[0]["message"]


def test_every_command_warns_of_a_variable_that_is_almost_a_setting(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFTY_PERCENT", "5")
    monkeypatch.setenv("KB_WORKPLACE_OF_ANOTHER_PROGRAM", "5")

    answer = kb_here("list")

    assert answer.returncode == 0
    assert (
        "KB_BULK_SAFTY_PERCENT is not a setting, and is ignored; did you mean KB_BULK_SAFETY_PERCENT?"
        in answer.stderr
    )
    assert "ANOTHER_PROGRAM" not in answer.stderr


def test_known_variables_are_not_reported(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    answer = kb_here("config", "--json")

    assert json.loads(answer.stdout)["unknown"] == []
    assert answer.stderr == ""


# A plugin's own section


def test_a_plugin_declares_settings_that_are_read_like_the_hosts_own(
    kb_here, kb_home, plugin, monkeypatch
) -> None:
    plugin("weather", WEATHER)
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Oslo", "default")

    write_toml(kb_home, '[weather]\ncity = "Bergen"\nstations = ["a", "b"]')
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Bergen", str(kb_home / "kb.toml"))
    assert shown(kb_here, "KB_WEATHER_STATIONS") == (["a", "b"], str(kb_home / "kb.toml"))

    write_dotenv(kb_home, "KB_WEATHER_CITY=Hamar\n")
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Hamar", str(kb_home / ".env"))

    monkeypatch.setenv("KB_WEATHER_CITY", "Molde")
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Molde", "environment")


def test_a_plugins_invalid_value_stops_with_one_line(kb_here, plugin, monkeypatch) -> None:
    plugin("weather", WEATHER)
    monkeypatch.setenv("KB_WEATHER_DAYS", "15")

    assert_refused_in_one_line(kb_here("list"), "KB_WEATHER_DAYS", "'15'", "1 to 14")


def test_a_plugins_section_that_is_no_table_stops_with_one_line(kb_here, kb_home, plugin) -> None:
    plugin("weather", WEATHER)
    write_toml(kb_home, "weather = 3")

    assert_refused_in_one_line(kb_here("list"), "weather", "table")


@pytest.mark.parametrize("name", ["weather", "meteorology"])
def test_a_service_is_given_its_plugins_own_section(plugin, monkeypatch, name) -> None:
    from kb_framework.app import open_kb

    plugin(name, WEATHER)
    monkeypatch.setenv("KB_WEATHER_CITY", "Molde")
    kb = open_kb()
    try:
        assert kb.services["forecast"].settings.city == "Molde"
    finally:
        kb.close()


def test_a_switched_off_plugins_settings_are_gone(kb_here, plugin, monkeypatch) -> None:
    plugin("weather", WEATHER)
    monkeypatch.setenv("KB_WEATHER_DAYS", "not even a number")
    monkeypatch.setenv("KB_DISABLED_PLUGINS", "weather")

    answer = kb_here("config", "--json")

    assert answer.returncode == 0
    assert json.loads(answer.stdout)["unknown"] == ["KB_WEATHER_DAYS"]


def test_settings_that_cannot_be_imported_cost_that_plugin_alone(kb_here, plugin) -> None:
    plugin(
        "weather",
        "from kb_framework import api, hookimpl\n\n\n"
        "@hookimpl\ndef kb_settings():\n    return [api.SettingsSection('weather', 'no_such_module:Settings')]\n",
    )

    answer = kb_here("config", "--json")

    assert answer.returncode == 0
    assert "weather" in answer.stderr
    assert kb_here("list").returncode == 0


def strict(field: str) -> str:
    """A plugin with one setting, made of source text."""
    return f"""
from pydantic import Field, field_validator, model_validator

from kb_framework import api, hookimpl
from kb_framework.api.settings import Section


class StrictSettings(Section):
    {field}


@hookimpl
def kb_settings():
    return [api.SettingsSection("strict", f"{{__name__}}:StrictSettings")]
"""


RAISES = """colour: str = Field("red", description="Which.")

    @field_validator("colour")
    @classmethod
    def known(cls, value):
        return {"red": "#f00"}[value]"""
RAISES_AS_A_WHOLE = """colour: str = Field("red", description="Which.")

    @model_validator(mode="after")
    def known(self):
        raise ValueError("these do not go together")"""


def test_a_validator_that_raises_something_else_is_told_with_setting_and_plugin(
    kb_here, plugin, monkeypatch
) -> None:
    plugin("painter", strict(RAISES))
    monkeypatch.setenv("KB_STRICT_COLOUR", "mauve")

    assert_refused_in_one_line(
        kb_here("list"),
        "KB_STRICT_COLOUR",
        "plugin painter",
        "'mauve'",
        "environment",
        "KeyError",
        "a text",
    )


def test_a_validator_of_the_whole_section_is_told_with_the_plugin(
    kb_here, plugin, monkeypatch
) -> None:
    plugin("painter", strict(RAISES_AS_A_WHOLE))
    monkeypatch.setenv("KB_STRICT_COLOUR", "mauve")

    assert_refused_in_one_line(
        kb_here("list"), "KB_STRICT_*", "plugin painter", "these do not go together"
    )


def test_an_invalid_value_in_a_file_is_told_with_its_key_file_and_plugin(
    kb_here, kb_home, plugin
) -> None:
    plugin("meteorology", WEATHER)
    write_toml(kb_home, "[weather]\ndays = 15")

    assert_refused_in_one_line(
        kb_here("list"),
        "KB_WEATHER_DAYS",
        "plugin meteorology",
        "is 15",
        f"weather.days in {kb_home / 'kb.toml'}",
        "1 to 14",
    )


@pytest.mark.parametrize(
    "kind", ["list[str]", "list[str] | None", "set[str]", "tuple[str, ...]", "frozenset[str]"]
)
@pytest.mark.parametrize("text", ["a, b,", '["a", "b"]'])
def test_any_list_of_texts_is_comma_separated_in_the_environment(
    kb_here, plugin, monkeypatch, kind, text
) -> None:
    plugin(
        "strict",
        strict(
            f'names: {kind} = Field(default=("x",), validate_default=False, description="Names.")'
        ),
    )
    monkeypatch.setenv("KB_STRICT_NAMES", text)

    found = shown(kb_here, "KB_STRICT_NAMES")[0]

    assert found == ["a", "b"] or {word for word in ("'a'", "'b'") if word in found} == {
        "'a'",
        "'b'",
    }


def test_a_setting_without_a_default_costs_its_plugin_alone(kb_here, plugin, monkeypatch) -> None:
    plugin("strict", strict('token: str = Field(description="For the provider.")'))

    answer = kb_here("plugins", "--json")

    states = {item["name"]: (item["state"], item["reason"]) for item in json.loads(answer.stdout)}
    assert states["strict"][0] == "failed"
    assert "KB_STRICT_TOKEN is not set" in states["strict"][1]
    assert kb_here("list").returncode == 0

    monkeypatch.setenv("KB_STRICT_TOKEN", "given")
    assert shown(kb_here, "KB_STRICT_TOKEN") == ("given", "environment")
