"""A plugin's settings: the base of its section, and types: strict numbers, lists, addresses without passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from kb_framework.bootstrap import split_list
from kb_framework.masking import MASK

if TYPE_CHECKING:
    from kb_framework.settings import HostSettings

StringList = Annotated[list[str], NoDecode, BeforeValidator(split_list)]


def _whole_number(value: Any) -> Any:
    """Only plain digits: pydantic would also take `70.0`, ` 70 ` and TOML's `true`."""
    plain = isinstance(value, int) and not isinstance(value, bool)
    digits = isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit()
    if not plain and not digits:
        raise ValueError("not a whole number")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def without_credentials(value: Any) -> Any:
    """Refuse an address with a password: addresses are shown, logged and recorded. The message does not repeat it."""
    if isinstance(value, str) and "@" in value:
        raise ValueError(
            "holds credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    return value


def _without_password(value: Any) -> Any:
    try:
        # Without a host it is no address, and what is before the @ may still be a password.
        holds_one = isinstance(value, str) and "@" in (urlsplit(value).netloc or value)
    except ValueError:
        raise ValueError("not an address") from None
    if holds_one:
        raise ValueError(
            "holds a name or a password: give the key in the setting API_KEY of the same section instead"
        )
    return value


# An http address without a password, since addresses are shown, logged and recorded.
Address = Annotated[str, BeforeValidator(_without_password)]


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]


Number = Annotated[float, BeforeValidator(_number)]


class DatabaseUrl(SecretStr):
    """An address whose password is shown to nobody."""

    def _display(self) -> str:
        shown = re.sub(r"\A([^/]*//[^/@:]*:).*(@)", rf"\1{MASK}\2", self.get_secret_value())
        return re.sub(r"((?:^|[?&\s])(?:ssl)?password=)[^&\s]*", rf"\1{MASK}", shown)


def valid_database_url(value: Any) -> Any:
    """Validate the address of a database. Which schemes there are depends on plugins."""
    if value == "":
        # So that the environment can say "none" where a file names one.
        return None
    if isinstance(value, str) and "://" not in value:
        raise ValueError("it must begin with a scheme, as postgresql:// does")
    if isinstance(value, str):
        # A client would take a part of such a password for the host, and show it in its messages.
        before, _, _ = value.partition("?")[0].rpartition("@")
        if "@" in before or "/" in before.partition("//")[2]:
            raise ValueError("write @ in a password as %40, and / as %2F")
    return value


class Section(BaseSettings):
    """A plugin's settings: subclass it, give every field a default and a description."""

    # A value may be a secret, so errors leave it out.
    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # `load_settings` reads the sources one by one, to know where each value came from.
        return (init_settings,)

    def misfit(self, host: HostSettings) -> tuple[str, str] | None:
        """Return a field that does not go with the host's settings, and why; None where all do."""
        return None
