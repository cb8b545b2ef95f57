"""What a tool may ask of the person behind the client, and of the client's model."""

from __future__ import annotations

from typing import Any

import anyio.from_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import is_version_at_least

from kb_framework.api import Answer, Sampled

# The one question of a call; accepting it is the answer, there is nothing to fill in.
_QUESTION = "confirm"
_YES: dict[str, Any] = {"type": "object", "properties": {}}
# The one prompt of a call.
_PROMPT = "answer"
_ASKS_BETWEEN_CALLS = "2026-07-28"


class Unanswered(BaseException):
    """A question that the client answers by calling again. Not an error: no tool may catch it as one."""

    def __init__(self, requests: dict[str, Any], state: str) -> None:
        self.requests = requests
        self.state = state


class Asking:
    """The `Ask` of one call."""

    def __init__(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> None:
        self._context = context
        capabilities = context.session.client_capabilities
        offered = capabilities.elicitation if capabilities else None
        # Before there were modes, every client that could ask could show a form.
        self.possible = offered is not None and (offered.form is not None or offered.url is None)
        self.answer: Answer | None = None
        said = (params.input_responses or {}).get(_QUESTION)
        if isinstance(said, types.ElicitResult) and params.request_state is not None:
            self.answer = Answer(said.action, params.request_state)

    def __call__(self, question: str, state: str) -> Answer:
        if is_version_at_least(self._context.protocol_version, _ASKS_BETWEEN_CALLS):
            form = types.ElicitRequestFormParams(message=question, requested_schema=_YES)
            raise Unanswered({_QUESTION: types.ElicitRequest(params=form)}, state)
        result = anyio.from_thread.run(
            self._context.session.elicit_form, question, _YES, self._context.request_id
        )
        return Answer(result.action, state)


class Sampling:
    """The `Sample` of one call."""

    def __init__(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> None:
        self._context = context
        capabilities = context.session.client_capabilities
        self.possible = capabilities is not None and capabilities.sampling is not None
        said = (params.input_responses or {}).get(_PROMPT)
        state = params.request_state
        self.answer = (
            _sampled(said, state)
            if isinstance(said, types.CreateMessageResult) and state is not None
            else None
        )

    def __call__(self, prompt: str, max_tokens: int, state: str) -> Sampled:
        message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
        request = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
        )
        if is_version_at_least(self._context.protocol_version, _ASKS_BETWEEN_CALLS):
            raise Unanswered({_PROMPT: request}, state)
        result = anyio.from_thread.run(
            self._context.session.send_request, request, types.CreateMessageResult
        )
        return _sampled(result, state)


def _sampled(result: types.CreateMessageResult, state: str) -> Sampled:
    return Sampled(getattr(result.content, "text", ""), result.model, state)
