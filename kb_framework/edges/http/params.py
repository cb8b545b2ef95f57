"""What handlers share: parameter types, documented answers, uploads."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.datastructures import UploadFile
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter

from kb_framework.api.models import MAX_INT
from kb_framework.errors import InvalidInput

DocumentId = Annotated[int, PathParameter(ge=-MAX_INT - 1, le=MAX_INT)]


def Answer(model: type[Any], description: str) -> ResponseSpec:  # noqa: N802 - reads like the class it makes
    """A documented answer besides the ordinary one."""
    return ResponseSpec(model, description=description, generate_examples=False)


# The security scheme of the OpenAPI document.
KEY_SCHEME = "key"
# What any route may answer besides.
DOCUMENTED = {
    400: "The input is wrong; the message names the field",
    401: "No key, or one that is unknown, revoked or expired",
    403: "Not allowed",
    404: "There is no such thing",
    409: "Refused",
    413: "Too large",
    415: "Not a kind of body that this route takes",
    429: "Too many requests; Retry-After says when to come back",
    500: "Unexpected; logged under the id that is given",
    503: "Busy, the database cannot be used, there is not enough memory, or a plugin has failed",
    507: "The disk is full; nothing was changed",
}


def upload_bytes(file: UploadFile) -> tuple[bytes, str]:
    """An uploaded file's content and name."""
    name = (file.filename or "").replace("\\", "/").strip()
    if not name or "\x00" in name:
        raise InvalidInput("file: must have a name", field="file")
    file.file.seek(0)
    return file.file.read(), name
