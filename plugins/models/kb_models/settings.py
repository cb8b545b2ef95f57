"""Settings of the models plugin."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from kb_framework.api.settings import Address, Number, Section, WholeNumber


class ModelsSettings(Section):
    """Which models are used, and the endpoint of the generator `openai`. At the top level, as before there was this plugin."""

    embedder: str = Field(
        "wordllama",
        description="Which embedding model; 'none' for lexical search only.",
        json_schema_extra={"names": "embedder", "none": True},
    )
    knowledge_generator_url: Address | None = Field(
        None,
        description="The OpenAI-compatible endpoint of the generator 'openai', such as http://127.0.0.1:8080/v1.",
    )
    knowledge_generator_model: str | None = Field(
        None, description="The model to ask that endpoint for."
    )
    knowledge_generator_api_key: SecretStr | None = Field(
        None, description="The key to send to that endpoint."
    )
    knowledge_generator_timeout: Number = Field(
        120.0, gt=0, le=3600, description="Seconds that endpoint may take for one answer."
    )
    knowledge_generator_max_tokens: WholeNumber = Field(
        1024, ge=1, le=1_000_000, description="How long an answer may be."
    )
    knowledge_generator_temperature: Number = Field(
        0.0, ge=0, le=2, description="How much an answer may vary."
    )


class EmbeddingsSettings(Section):
    """The embedders that need an address or a file."""

    url: Address | None = Field(
        None,
        description="The OpenAI-compatible endpoint of the embedder 'openai', such as http://127.0.0.1:8080/v1.",
    )
    model: str | None = Field(None, description="The model to ask that endpoint for.")
    api_key: SecretStr | None = Field(None, description="The key to send to that endpoint.")
    dimensions: WholeNumber | None = Field(
        None,
        ge=1,
        le=8192,
        description="Ask that endpoint for vectors of this length; by default the model's own.",
    )
    batch: WholeNumber = Field(
        64, ge=1, le=2048, description="How many texts that endpoint is sent at once."
    )
    timeout: Number = Field(
        30.0, gt=0, le=3600, description="Seconds that endpoint may take for one answer."
    )
    onnx_file: Path | None = Field(None, description="The model of the embedder 'onnx'.")
    tokenizer_file: Path | None = Field(
        None,
        description="That model's tokenizer.json; without it, the model must take texts itself.",
    )
