"""E-mail: who wrote what to whom, and the files that came with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from kb_text.api import decode

from kb_formats.charset import decode_markup
from kb_formats.html_text import to_markdown
from kb_formats.names import safe_name
from kb_formats.native import described, read
from kb_formats.ole import compound
from kb_framework.api import Attachment, Extracted
from kb_framework.errors import ExtractionFailed

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MBOX_SPLIT = re.compile(rb"(?:\A|\r?\n\r?\n|\n)(?=From \S+[ \t].*\d\d:\d\d)")
_MAX_PARTS = 1000


def email(data: bytes, name: str) -> Extracted:
    """One message: its headers, its body, its attachments."""
    message = _parsed(data)
    headers = {header: value for header in _SHOWN if (value := _header(message, header))}
    body, is_markdown, attachments = _content(message)
    if not body and not attachments and not headers:
        raise ExtractionFailed("the message is empty")
    subject = headers.get("Subject")
    head = "\n".join(f"{header}: {value}" for header, value in headers.items())
    metadata: dict[str, Any] = {header.lower(): value for header, value in headers.items()}
    if identity := _header(message, "Message-ID"):
        metadata["message_id"] = identity
    if moment := _moment(headers.get("Date")):
        metadata["date"] = moment
    return Extracted(
        f"{head}\n\n{body}".strip(),
        media="email",
        title=subject,
        metadata=metadata,
        markdown=is_markdown,
        attachments=tuple(attachments),
    )


def mbox(data: bytes, name: str) -> Extracted:
    """A mailbox: each message becomes a file of its own; a single one is read as the message that it is."""
    messages = [part.strip(b"\r\n") for part in _MBOX_SPLIT.split(data) if part.strip()]
    messages = [
        part.partition(b"\n")[2] if part.startswith(b"From ") else part for part in messages
    ]
    messages = [re.sub(rb"(?m)^>(>*From )", rb"\1", part) for part in messages if part.strip()]
    if not messages:
        raise ExtractionFailed("the mailbox is empty")
    if len(messages) == 1:
        return email(messages[0], name)
    lines: list[str] = []
    files: list[Attachment] = []
    for number, part in enumerate(messages, 1):
        message = _parsed(
            part.partition(b"\n\n")[0]
            if b"\r\n\r\n" not in part
            else part.partition(b"\r\n\r\n")[0]
        )
        subject = _header(message, "Subject")
        lines.append(
            " · ".join(
                value
                for header in ("Date", "From", "Subject")
                if (value := _header(message, header))
            )
        )
        shown = (subject or "message").replace("/", " ")[:80].strip()
        files.append(Attachment(safe_name(f"{number:05} {shown}.eml", f"{number:05}.eml"), part))
    listing = "\n".join(f"- {line}" for line in lines if line)
    return Extracted(
        listing or f"{len(files)} messages",
        media="mbox",
        title=name.rpartition("/")[2],
        metadata={"messages": len(files)},
        attachments=tuple(files),
    )


def msg(data: bytes, name: str) -> Extracted:
    """A message saved by Outlook, with its attachments."""
    result = read(data, "application/vnd.ms-outlook", "message")
    text = result.content.strip()
    if not text:
        raise ExtractionFailed("the message holds no text")
    _, metadata = described(result.metadata)
    subject = str(result.metadata.get("subject") or "").strip()
    files = tuple(_outlook_attachments(data))
    return Extracted(
        text,
        media="email",
        title=subject or None,
        metadata=metadata,
        markdown=True,
        attachments=files,
    )


def _outlook_attachments(data: bytes) -> Iterator[Attachment]:
    """What is in the folders for attachments; the streams are named after their MAPI properties."""
    file = compound(data)
    if file is None:
        return
    folders = sorted(
        {path.split("/")[0] for path in file.paths if path.startswith("__attach_version1.0_")}
    )
    for number, folder in enumerate(folders[:_MAX_PARTS], 1):
        content = file.stream(f"{folder}/__substg1.0_37010102")
        # The long name, else the short one; as UTF-16, or in an old code page.
        wide = file.stream(f"{folder}/__substg1.0_3707001f") or file.stream(
            f"{folder}/__substg1.0_3704001f"
        )
        narrow = file.stream(f"{folder}/__substg1.0_3707001e") or file.stream(
            f"{folder}/__substg1.0_3704001e"
        )
        shown = (
            wide.decode("utf-16-le", errors="replace")
            if wide
            else narrow.decode("cp1252", errors="replace")
        )
        if content:
            yield Attachment(safe_name(shown.strip("\x00"), f"attachment-{number}"), content)


def _parsed(data: bytes) -> Message:
    # The classic policy: the modern one parses every header and stumbles over many that are out there.
    return message_from_bytes(data.lstrip(b"\r\n"))


def _header(message: Message, name: str) -> str:
    """A header in plain letters, whatever encoding it is in."""
    raw = message.get(name)
    if raw is None:
        return ""
    pieces: list[str] = []
    try:
        for piece, charset in decode_header(raw):
            pieces.append(
                piece
                if isinstance(piece, str)
                else _decoded(piece, None if charset == "unknown-8bit" else charset)
            )
    except Exception:  # noqa: BLE001 - whatever a malformed header makes the standard library raise
        pieces = [str(raw)]
    return " ".join("".join(pieces).split())


def _decoded(data: bytes, charset: str | None) -> str:
    for candidate in (charset, "utf-8"):
        try:
            if candidate:
                return data.decode(candidate).replace("\r\n", "\n").replace("\x00", "")
        except (LookupError, UnicodeDecodeError):
            continue
    try:
        return decode(data)
    except ExtractionFailed:
        return ""


def _moment(date: str | None) -> str | None:
    try:
        return parsedate_to_datetime(date).isoformat() if date else None
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _content(message: Message) -> tuple[str, bool, list[Attachment]]:
    """The body (plain where there is a plain one), whether it is Markdown, and the attachments."""
    plain: list[str] = []
    marked: list[str] = []
    attachments: list[Attachment] = []
    for number, part in enumerate(_leaves(message), 1):
        kind = part.get_content_type()
        filename = _filename(part)
        attached = part.get_content_disposition() == "attachment" or bool(filename)
        if kind == "message/rfc822":
            inner = part.get_payload()
            raw = (
                inner[0].as_bytes()
                if isinstance(inner, list) and inner and isinstance(inner[0], Message)
                else _payload(part)
            )
            attachments.append(
                Attachment(
                    safe_name(filename or f"message {number}.eml", f"message {number}.eml"), raw
                )
            )
        elif attached or part.get_content_maintype() != "text":
            if (raw := _payload(part)) and (
                attached or part.get_content_maintype() in ("application", "text")
            ):
                attachments.append(Attachment(safe_name(filename, f"attachment {number}"), raw))
        elif kind == "text/html":
            raw = _payload(part)
            charset = part.get_content_charset()
            source = (
                _decoded(raw, charset) if charset else decode_markup(raw) if raw.strip() else ""
            )
            marked.append(to_markdown(source))
        else:
            plain.append(_decoded(_payload(part), part.get_content_charset()).strip())
    text = "\n\n".join(piece for piece in plain if piece)
    # Some senders put "see the HTML version" where the text belongs.
    rich = "\n\n".join(piece for piece in marked if piece)
    if rich and len(text) < len(rich) // 10:
        return rich, True, attachments
    return text, False, attachments


def _leaves(message: Message) -> Iterator[Message]:
    """Parts that are not made of parts; a message in a message is one of them."""
    stack, seen = [message], 0
    while stack and seen < _MAX_PARTS:
        part = stack.pop()
        seen += 1
        payload = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(payload, list):
            stack.extend(child for child in reversed(payload) if isinstance(child, Message))
        else:
            yield part


def _payload(part: Message) -> bytes:
    try:
        raw = part.get_payload(decode=True)
    except Exception:  # noqa: BLE001 - whatever a malformed part makes the standard library raise
        raw = None
    if isinstance(raw, bytes):
        return raw
    text = part.get_payload()
    return text.encode("utf-8", errors="replace") if isinstance(text, str) else b""


def _filename(part: Message) -> str:
    try:
        name = part.get_filename()
    except Exception:  # noqa: BLE001 - as above
        return ""
    if not name:
        return ""
    holder = Message()
    holder["Name"] = " ".join(name.split())
    return _header(holder, "Name")
