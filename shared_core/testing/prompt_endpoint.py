"""A local HTTP endpoint that speaks the Messages API on top of the simulated cache, for real SDKs in tests.

    with PromptEndpoint(clock=clock) as endpoint:
        client = anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0)
        client.messages.create(…).usage           # what the provider's rules bill
        endpoint.requests                         # the bodies that arrived

Served are ``/v1/messages`` (also streaming) and ``/v1/messages/count_tokens``. Replies come from ``reply``: a text,
a list of content blocks, or a function of the request (what it raises is a 500). No thinking and no model: nothing is
generated. Whatever else arrives is answered as the API does: 400, 404 or 413 with its JSON, and the endpoint goes on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from shared_core.testing.clock import FakeClock
from shared_core.testing.prompt_cache import BadRequest, PromptCache

Reply = str | list[dict[str, Any]]
_MOST_BYTES = 32 * 2**20
"""What the API takes at most in one request."""
_MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError)


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
            if "max_tokens" not in body:
                raise BadRequest("max_tokens: Field required")
            usage = _read(self.cache.send, body)
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
        prompt = _read(self.cache.read, body)
        return {"input_tokens": prompt.tokens[-1] if prompt.tokens else 0}


def _read(by: Callable[[dict[str, Any]], Any], body: dict[str, Any]) -> Any:
    """What the cache makes of a body; BadRequest for one that is no request."""
    if not body.get("messages"):
        raise BadRequest("messages: at least one message is required")
    try:
        return by(body)
    except _MALFORMED as error:
        raise BadRequest(f"malformed request: {error!r:.500}") from error


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
        elif block["type"] == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            yield "content_block_start", {"index": index, "content_block": empty}
            for name in ("thinking", "signature"):
                yield "content_block_delta", {"index": index, "delta": {"type": f"{name}_delta", name: block[name]}}
        elif "input" in block:
            yield "content_block_start", {"index": index, "content_block": {**block, "input": {}}}
            whole = json.dumps(block["input"])
            yield "content_block_delta", {"index": index, "delta": {"type": "input_json_delta", "partial_json": whole}}
        else:
            yield "content_block_start", {"index": index, "content_block": block}
        yield "content_block_stop", {"index": index}
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    billed = {name: count for name, count in message["usage"].items() if isinstance(count, int)}  # not by lifetime
    yield "message_delta", {"delta": stopped, "usage": billed}
    yield "message_stop", {}


def _answering(endpoint: PromptEndpoint) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(ConnectionError):  # a client may leave when it likes
                super().handle()

        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            try:
                body = self._body()
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
            except OverflowError as error:
                self._fail(413, "request_too_large", str(error))
            except ConnectionError:
                raise
            except Exception as error:  # noqa: BLE001  the reply's own; a client can be told, a thread cannot
                self._fail(500, "api_error", repr(error))

        def do_GET(self) -> None:
            self.close_connection = True  # what else there is of the request is not read
            self._fail(404, "not_found_error", f"no such path: {self.command} {self.path}")

        do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server calls

        def _body(self) -> dict[str, Any]:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _MOST_BYTES:
                self.close_connection = True  # what was sent is not read
                if not length.isdecimal():
                    raise BadRequest("a request needs a Content-Length")
                raise OverflowError(f"Request exceeds the maximum size of {_MOST_BYTES} bytes")
            try:
                body = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError) as error:
                raise BadRequest(f"the request body is not valid JSON: {error}") from error
            if not isinstance(body, dict):
                raise BadRequest(f"the request body is not a JSON object but {type(body).__name__}")
            return body

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
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Tests are silent."""

    return Answering
