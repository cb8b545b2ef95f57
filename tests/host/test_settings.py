"""H7: settings, where they come from, and what an unusable one does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb_framework.client import connect

WEATHER = """
from pydantic import Field, SecretStr

from kb_framework import api, hookimpl
from kb_framework.settings import Section, StringList, WholeNumber


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

NOT_A_PERCENTAGE = ["abc", "-1", "101", "70.5", "70.0", "", "true", " 70 ", "1e1", "７０", "0x10", "1_0"]

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


def write_dotenv(text: str) -> None:
    Path(".env").write_text(text, encoding="utf-8")


def assert_refused_in_one_line(answer: Any, *words: str) -> None:
    assert answer.returncode == 2, answer
    assert answer.stdout == ""
    lines = answer.stderr.splitlines()
    assert len(lines) == 1, answer.stderr
    for word in words:
        assert word in lines[0]


# Precedence


def test_the_environment_wins_over_dotenv_over_toml_over_the_default(kb_here, kb_home, monkeypatch) -> None:
    name = "KB_BULK_SAFETY_PERCENT"
    assert shown(kb_here, name) == (70, "default")

    write_toml(kb_home, "bulk_safety_percent = 10")
    assert shown(kb_here, name) == (10, "kb.toml")

    write_dotenv("KB_BULK_SAFETY_PERCENT=20\n")
    assert shown(kb_here, name) == (20, ".env")

    monkeypatch.setenv(name, "30")
    assert shown(kb_here, name) == (30, "environment")


def test_each_value_comes_from_its_own_source(kb_here, kb_home, monkeypatch) -> None:
    write_toml(kb_home, 'bulk_safety_percent = 10\nlog_level = "error"')
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT") == (10, "kb.toml")
    assert shown(kb_here, "KB_LOG_LEVEL") == ("debug", "environment")
    assert shown(kb_here, "KB_BUSY_TIMEOUT") == (30.0, "default")
    assert shown(kb_here, "KB_DATA_DIR") == (str(kb_home), "environment")


def test_another_toml_file_can_be_named(kb_here, kb_home, tmp_path, monkeypatch) -> None:
    write_toml(kb_home, "bulk_safety_percent = 10")
    (tmp_path / "other.toml").write_text("bulk_safety_percent = 15", encoding="utf-8")
    monkeypatch.setenv("KB_CONFIG_FILE", str(tmp_path / "other.toml"))

    assert shown(kb_here, "KB_BULK_SAFETY_PERCENT") == (15, "other.toml")


def test_a_toml_file_that_is_named_but_missing_stops_the_start(kb_here, tmp_path, monkeypatch) -> None:
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


def test_an_empty_data_folder_never_means_the_current_folder(kb_here, tmp_path, monkeypatch) -> None:
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


def test_lists_are_comma_separated_in_the_environment_and_arrays_in_toml(kb_here, kb_home, monkeypatch) -> None:
    write_toml(kb_home, 'allowed_hosts = ["kb.example", "b.example"]')
    assert shown(kb_here, "KB_ALLOWED_HOSTS") == (["kb.example", "b.example"], "kb.toml")

    monkeypatch.setenv("KB_ALLOWED_HOSTS", "a.example, c.example,")
    assert shown(kb_here, "KB_ALLOWED_HOSTS") == (["a.example", "c.example"], "environment")


def test_config_is_a_table_for_people(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    lines = kb_here("config").stdout.splitlines()

    assert lines[0].split("\t") == ["variable", "value", "source", "description"]
    assert any(line.split("\t")[:3] == ["KB_LOG_LEVEL", "debug", "environment"] for line in lines)


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
def test_an_invalid_percentage_in_the_environment_stops_with_one_line(kb_here, monkeypatch, value) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", value)

    assert_refused_in_one_line(kb_here("list"), "KB_BULK_SAFETY_PERCENT", repr(value), "0 to 100", "environment")


@pytest.mark.parametrize("value", NOT_A_PERCENTAGE)
def test_an_invalid_percentage_in_dotenv_stops_with_one_line(kb_here, value) -> None:
    write_dotenv(f"KB_BULK_SAFETY_PERCENT='{value}'\n")

    assert_refused_in_one_line(kb_here("list"), "KB_BULK_SAFETY_PERCENT", repr(value), "0 to 100", ".env")


@pytest.mark.parametrize("value", ['"abc"', "-1", "101", "70.5", "70.0", '""', "true", '" 70 "', "[70]", "nan", "{a = 1}"])
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
def test_any_other_invalid_value_stops_with_one_line(kb_here, monkeypatch, name, value, allowed) -> None:
    monkeypatch.setenv(name, value)

    assert_refused_in_one_line(kb_here("list"), name, repr(value), allowed)


@pytest.mark.parametrize("line", ["busy_timeout = true", "max_file_bytes = 5.0", 'log_level = ["info"]', "embedder = 3"])
def test_a_value_of_the_wrong_type_in_toml_stops_with_one_line(kb_here, kb_home, line) -> None:
    write_toml(kb_home, line)

    assert_refused_in_one_line(kb_here("list"), f"KB_{line.split(' ')[0].upper()}")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_invalid_value_stops_every_command(kb_here, kb_home, monkeypatch, arguments) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCENT", "101")

    assert_refused_in_one_line(kb_here(*arguments), "KB_BULK_SAFETY_PERCENT", "'101'", "0 to 100")
    assert not kb_home.exists()


def test_an_invalid_value_stops_the_process_with_exit_code_2(kb_run) -> None:
    assert_refused_in_one_line(kb_run("list", KB_BULK_SAFETY_PERCENT="abc"), "KB_BULK_SAFETY_PERCENT", "'abc'", "0 to 100")


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
    kb_home.mkdir()
    (kb_home / "kb.toml").write_bytes(b'embedder = "\xff\xfe"')

    assert_refused_in_one_line(kb_here("list"), str(kb_home / "kb.toml"))


def test_a_dotenv_that_is_not_utf_8_stops_with_one_line_that_names_the_file(kb_here) -> None:
    Path(".env").write_bytes(b"KB_EMBEDDER=\xff\xfe\n")

    assert_refused_in_one_line(kb_here("list"), ".env")


def test_a_byte_order_mark_in_toml_is_no_reason_to_crash(kb_here, kb_home) -> None:
    kb_home.mkdir()
    (kb_home / "kb.toml").write_bytes(b"\xef\xbb\xbfbulk_safety_percent = 12")

    answer = kb_here("config", "--json")

    assert answer.returncode in (0, 2)
    assert "unexpected" not in answer.stderr


# Unknown variables


def test_config_reports_variables_that_no_setting_has(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCNT", "50")
    write_dotenv("KB_LOGLEVEL=debug\n")

    answer = kb_here("config", "--json")

    assert json.loads(answer.stdout)["unknown"] == ["KB_BULK_SAFETY_PERCNT", "KB_LOGLEVEL"]
    assert "KB_BULK_SAFETY_PERCNT" in answer.stderr
    assert "KB_LOGLEVEL" in answer.stderr


def test_doctor_warns_of_variables_that_no_setting_has(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_BULK_SAFETY_PERCNT", "50")

    answer = kb_here("doctor", "--json")

    checks = [check for check in json.loads(answer.stdout)["checks"] if check["name"] == "settings"]
    assert answer.returncode == 0
    assert [check["state"] for check in checks] == ["warning"]
    assert "KB_BULK_SAFETY_PERCNT" in checks[0]["message"]


def test_known_variables_are_not_reported(kb_here, monkeypatch) -> None:
    monkeypatch.setenv("KB_LOG_LEVEL", "debug")

    answer = kb_here("config", "--json")

    assert json.loads(answer.stdout)["unknown"] == []
    assert answer.stderr == ""


# A plugin's own section


def test_a_plugin_declares_settings_that_are_read_like_the_hosts_own(kb_here, kb_home, plugin, monkeypatch) -> None:
    plugin("weather", WEATHER)
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Oslo", "default")

    write_toml(kb_home, '[weather]\ncity = "Bergen"\nstations = ["a", "b"]')
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Bergen", "kb.toml")
    assert shown(kb_here, "KB_WEATHER_STATIONS") == (["a", "b"], "kb.toml")

    write_dotenv("KB_WEATHER_CITY=Hamar\n")
    assert shown(kb_here, "KB_WEATHER_CITY") == ("Hamar", ".env")

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
