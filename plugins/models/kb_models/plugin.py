"""The entry point of the models plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_hookspecs() -> list[api.Hookspecs]:
    return [api.Hookspecs("kb_models.hookspecs")]


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [
        api.SettingsSection("models", "kb_models.settings:ModelsSettings", top_level=True),
        api.SettingsSection("embeddings", "kb_models.settings:EmbeddingsSettings"),
    ]


@hookimpl
def kb_services() -> list[api.Service]:
    return [
        api.Service("embedding", "kb_models.embedding:Embedding"),
        api.Service("generation", "kb_models.generation:Generation"),
    ]


@hookimpl
def kb_embedders() -> list[api.Embedder]:
    return [
        api.Embedder("wordllama", "kb_models.wordllama:WordLlama"),
        api.Embedder("multilingual", "kb_models.multilingual:Multilingual"),
        api.Embedder("onnx", "kb_models.onnx_file:OnnxFile"),
        api.Embedder("openai", "kb_models.openai_embedder:OpenAIEmbedder"),
    ]


@hookimpl
def kb_rerankers() -> list[api.Reranker]:
    return [api.Reranker("late", "kb_models.late_interaction:LateInteraction")]


@hookimpl
def kb_generators() -> list[api.Generator]:
    return [api.Generator("openai", "kb_models.openai_generator:OpenAIGenerator")]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, help: str) -> api.Command:
        return api.Command(name, f"kb_models.commands:{function}", help=help, group="Engine")

    return [
        command(
            "models list", "list_models", "Show the embedding models that can be installed here."
        )._replace(about="List and install embedding models."),
        command(
            "models install",
            "install_model",
            "Put an embedding model into this machine's data folder.",
        ),
    ]
