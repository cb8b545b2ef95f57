"""What the embeddings plugin lets people set."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from kb_framework.settings import Number, Section, WholeNumber


class EmbeddingsSettings(Section):
    url: str | None = Field(
        None, description="The OpenAI-compatible endpoint of the embedder 'openai', such as http://127.0.0.1:8080/v1."
    )
    model: str | None = Field(None, description="The model to ask that endpoint for.")
    api_key: SecretStr | None = Field(None, description="The key to send to that endpoint.")
    dimensions: WholeNumber | None = Field(
        None, ge=1, le=8192, description="Ask that endpoint for vectors of this length; by default the model's own."
    )
    batch: WholeNumber = Field(64, ge=1, le=2048, description="How many texts that endpoint is sent at once.")
    timeout: Number = Field(30.0, gt=0, le=3600, description="Seconds that endpoint may take for one answer.")
    onnx_file: Path | None = Field(None, description="The model of the embedder 'onnx'.")
    tokenizer_file: Path | None = Field(
        None, description="That model's tokenizer.json; without it, the model must take texts itself."
    )
