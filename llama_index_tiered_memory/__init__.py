"""LlamaIndex adapters."""
