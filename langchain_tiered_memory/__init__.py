"""LangChain and LangGraph adapters."""
