"""The entry point of the embeddings plugin."""

from __future__ import annotations

from kb_framework import api, hookimpl


@hookimpl
def kb_settings() -> list[api.SettingsSection]:
    return [api.SettingsSection("embeddings", "kb_embeddings.settings:EmbeddingsSettings")]


@hookimpl
def kb_embedders() -> list[api.Embedder]:
    return [
        api.Embedder("wordllama", "kb_embeddings.wordllama:WordLlama"),
        api.Embedder("multilingual", "kb_embeddings.multilingual:Multilingual"),
        api.Embedder("onnx", "kb_embeddings.onnx_file:OnnxFile"),
        api.Embedder("openai", "kb_embeddings.openai:OpenAI"),
    ]


@hookimpl
def kb_rerankers() -> list[api.Reranker]:
    return [api.Reranker("late", "kb_embeddings.late_interaction:LateInteraction")]


@hookimpl
def kb_commands() -> list[api.Command]:
    def command(name: str, function: str, help: str) -> api.Command:
        return api.Command(name, f"kb_embeddings.commands:{function}", help=help, group="Engine")

    return [
        command("models list", "list_models", "Show the embedding models that can be installed here."),
        command("models install", "install_model", "Put an embedding model into this machine's data folder."),
    ]
