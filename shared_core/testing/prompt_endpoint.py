"""A local HTTP endpoint that speaks the Messages API on top of the simulated cache, for real SDKs in tests.

    with PromptEndpoint(clock=clock) as endpoint:
        client = anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0)
        client.messages.create(…).usage           # what the provider's rules bill
        endpoint.requests                         # the bodies that arrived

Served are ``/v1/messages`` (also streaming) and ``/v1/messages/count_tokens``. Replies come from ``reply``: a text,
a list of content blocks, or a function of the request. No thinking and no model: nothing is generated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from shared_core.testing.clock import FakeClock
from shared_core.testing.prompt_cache import BadRequest, PromptCache

Reply = str | list[dict[str, Any]]


class PromptEndpoint:
    """The endpoint; a context manager. ``cache`` is the simulator it bills with, ``requests`` what arrived, in order."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] | None = None,
        cache: PromptCache | None = None,
        reply: Reply | Callable[[dict[str, Any]], Reply] = "Understood.",
    ) -> None:
        self.cache = cache if cache is not None else PromptCache(clock=clock if clock is not None else FakeClock())
        self.requests: list[dict[str, Any]] = []
        self.usages: list[dict[str, Any]] = []
        self._reply = reply
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL for a client."""
        if self._server is None:
            raise RuntimeError("the endpoint is not running; write: with PromptEndpoint() as endpoint")
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        self._server = self._thread = None

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The message that answers a request body. Raises BadRequest."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            usage = self.cache.send(body)
            self.usages.append(usage)
        made = self._reply(body) if callable(self._reply) else self._reply
        content = [{"type": "text", "text": made}] if isinstance(made, str) else made
        words = sum(len(json.dumps(block)) for block in content) // 4
        calls = any(block.get("type") == "tool_use" for block in content)
        return {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
            "usage": {**usage, "output_tokens": max(words, 1)},
        }  # fmt: skip

    def count(self, body: dict[str, Any]) -> dict[str, Any]:
        """The tokens of a request that is not sent."""
        prompt = self.cache.read(body)
        return {"input_tokens": prompt.tokens[-1] if prompt.tokens else 0}


def events(message: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The server-sent events that stream a message."""
    started = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield "message_start", {"message": started}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield "content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}}
            text = block["text"]
            for part in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield "content_block_delta", {"index": index, "delta": {"type": "text_delta", "text": part}}
        else:
            yield "content_block_start", {"index": index, "content_block": {**block, "input": {}}}
            whole = json.dumps(block.get("input", {}))
            yield "content_block_delta", {"index": index, "delta": {"type": "input_json_delta", "partial_json": whole}}
        yield "content_block_stop", {"index": index}
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    billed = {name: count for name, count in message["usage"].items() if isinstance(count, int)}  # not by lifetime
    yield "message_delta", {"delta": stopped, "usage": billed}
    yield "message_stop", {}


def _answering(endpoint: PromptEndpoint) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            try:
                if path == "/v1/messages/count_tokens":
                    self._send(200, endpoint.count(body))
                elif path == "/v1/messages":
                    message = endpoint.answer(body)
                    if body.get("stream"):
                        self._stream(message)
                    else:
                        self._send(200, message)
                else:
                    self._fail(404, "not_found_error", f"no such path: {path}")
            except BadRequest as error:
                self._fail(400, "invalid_request_error", str(error))
            except (KeyError, TypeError, AttributeError) as error:
                self._fail(400, "invalid_request_error", f"malformed request: {error!r}")

        def _fail(self, status: int, kind: str, message: str) -> None:
            self._send(status, {"type": "error", "error": {"type": kind, "message": message}})

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            self._write(status, "application/json", json.dumps(answer).encode())

        def _stream(self, message: dict[str, Any]) -> None:
            lines = [f"event: {name}\ndata: {json.dumps({'type': name, **rest})}\n\n" for name, rest in events(message)]
            self._write(200, "text/event-stream", "".join(lines).encode())

        def _write(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("request-id", f"req_{len(endpoint.requests)}")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Tests are silent."""

    return Answering
