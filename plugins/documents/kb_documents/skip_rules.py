"""Files of a folder that are left out by default, and the words for why."""

from __future__ import annotations

import codecs
import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

HIDDEN, IGNORED, LINK, SPECIAL, JUNK, SECRET, DATA = (
    "hidden",
    "ignored",
    "link",
    "special",
    "junk",
    "secret",
    "data",
)
EMPTY = "empty"

# Singular and plural of each reason and of each kind of file without text.
_WORDS = {
    "image": ("image", "images"),
    "audio": ("sound recording", "sound recordings"),
    "video": ("video", "videos"),
    "program": ("program", "programs"),
    "font": ("font", "fonts"),
    "database": ("database", "databases"),
    "binary": ("binary file", "binary files"),
    EMPTY: ("empty file", "empty files"),
    HIDDEN: ("hidden", "hidden"),
    IGNORED: ("ignored (.gitignore, .kbignore)", "ignored (.gitignore, .kbignore)"),
    LINK: ("link", "links"),
    SPECIAL: ("pipe or device", "pipes or devices"),
    JUNK: ("cache, dependency or temporary item", "cache, dependency or temporary items"),
    SECRET: ("file with a private key or credentials", "files with private keys or credentials"),
    DATA: ("data folder of kb", "data folders of kb"),
}

_JUNK_FOLDERS = frozenset(
    [
        "node_modules", "bower_components", "jspm_packages", "__pycache__", "__pypackages__", "site-packages", "__MACOSX",
        "lost+found", "$RECYCLE.BIN", "System Volume Information",
    ]
)  # fmt: skip
_JUNK_FILES = re.compile(
    r"thumbs\.db|desktop\.ini|~\$.*|.*\.(?:pyc|pyo|crdownload|part|swp)", re.IGNORECASE
)
# A folder that holds one of these is a virtual environment or a cache.
_JUNK_MARKS = ("pyvenv.cfg", "conda-meta")
_CACHE_MARK = "CACHEDIR.TAG"
_CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"

_SECRET_NAMES = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk)|[._]netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.git-credentials|\.htpasswd"
    r"|\.env(?:\..*)?|.*\.env|.*\.(?:kdbx?|ppk|pfx|p12|jks|keystore)",
    re.IGNORECASE,
)
# By the folder that the file is in.
_SECRET_PLACES = {
    ".aws": ("credentials",),
    ".docker": ("config.json",),
    ".kube": ("config",),
    ".gnupg": ("*.gpg", "*.key", "*.kbx"),
    "private-keys-v1.d": ("*",),
}
_KEY_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-|AGE-SECRET-KEY-1)"
)
# What `openssl pkcs12` and `age-keygen` write above a key.
_KEY_HEAD = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:Bag Attributes|# created: )")
_KEY_LINE = re.compile(
    rb"^(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|AGE-SECRET-KEY-1)", re.MULTILINE
)
# The key of a service account.
_KEY_JSON = re.compile(rb"\"private_key\"\s{0,9}:\s{0,9}\"-----BEGIN ")
_KEY_SUFFIXES = (".pem", ".key", ".crt", ".cer", ".asc")
_KEY_SAMPLE = 65_536

# Names that say what a file is: such files need not be opened. Names that texts have too (.ts, .key, .dat) are not listed.
_KINDS = {
    "image": "jpg jpeg jpe jfif png gif bmp tif tiff webp heic heif avif ico icns psd xcf cr2 cr3 nef arw dng orf rw2 jp2 jxl",
    "audio": "mp3 m4a aac flac ogg oga opus wav wma aif aiff amr mid midi",
    "video": "mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp vob m2ts",
    "program": "exe dll so dylib class pyd wasm msi apk ipa elf ko",
    "font": "ttf otf woff woff2 eot ttc pfb",
    "database": "sqlite sqlite3 mdb accdb dbf",
    "binary": "iso vmdk vdi qcow2 vhd vhdx dmg npy npz parquet safetensors onnx gguf",
}
_KIND_BY_SUFFIX = {
    f".{suffix}": kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()
}


def is_junk_folder(name: str, place: str, names: Collection[str]) -> bool:
    """Return whether a folder holds dependencies, caches or the remains of a system, by its name or by what is in it."""
    if name in _JUNK_FOLDERS or any(mark in names for mark in _JUNK_MARKS):
        return True
    if _CACHE_MARK not in names:
        return False
    try:
        with Path(place, _CACHE_MARK).open("rb") as file:
            return file.read(len(_CACHE_SIGNATURE)) == _CACHE_SIGNATURE
    except OSError:
        return False


def is_junk_file(name: str) -> bool:
    return _JUNK_FILES.fullmatch(name) is not None


def is_secret_name(name: str, folder: str) -> bool:
    """Return whether a file of this name, in a folder of that name, holds keys or passwords."""
    if _SECRET_NAMES.fullmatch(name):
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _SECRET_PLACES.get(folder, ()))


def is_private_key(data: bytes, name: str) -> bool:
    """Return whether a file is a private key. A text that shows one further down is not; a bundle of certificates is."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data[:_KEY_SAMPLE].decode("utf-16", "replace").encode()
    if _KEY_START.match(data):
        return True
    if name.lower().endswith(".json"):
        return _KEY_JSON.search(data, 0, _KEY_SAMPLE) is not None
    may_hold_one = name.lower().endswith(_KEY_SUFFIXES) or _KEY_HEAD.match(data) is not None
    return may_hold_one and _KEY_LINE.search(data) is not None


def kind_inside(name: str, data: bytes) -> str | None:
    """Return why a file inside an archive or a mail is left out, by its name in there and what it holds."""
    *folders, own = name.split("/")
    if is_secret_name(own, folders[-1] if folders else "") or is_private_key(data, own):
        return SECRET
    return JUNK if is_junk_file(own) or not _JUNK_FOLDERS.isdisjoint(folders) else None


def kind_by_name(name: str, read: Collection[str] = ()) -> str | None:
    """Return what a file is that nothing reads, where its name says so; `read` are suffixes and kinds that something reads."""
    dot = name.rfind(".")
    suffix = name[dot:].lower() if dot > 0 else ""
    kind = _KIND_BY_SUFFIX.get(suffix)
    return None if kind is None or suffix in read or kind in read else kind


def has_no_text(name: str) -> bool:
    """Return whether this kind, or a file of this suffix, usually has no text."""
    return name in _KINDS or name in _KIND_BY_SUFFIX


def why_unread(kind: str) -> str:
    if kind in (SECRET, JUNK):
        return f"it is among {_WORDS[kind][1]}"
    return (
        "the file is empty"
        if kind == EMPTY
        else f"nothing here reads {_WORDS.get(kind, (kind, kind))[1]}"
    )


def counted(left_out: Mapping[str, Sequence[str]]) -> str:
    """Return what was left out in words: `200 images, 3 hidden, 1 link`."""
    ordered = [reason for reason in _WORDS if left_out.get(reason)]
    ordered += [reason for reason in left_out if reason not in _WORDS and left_out[reason]]
    return ", ".join(_number(reason, len(left_out[reason])) for reason in ordered)


def _number(reason: str, count: int) -> str:
    one, many = _WORDS.get(reason, (f"{reason} file", f"{reason} files"))
    return f"{count} {one if count == 1 else many}"
