"""Serves a small trained model by `troupe serve`, on loopback. Run by ctest.

    serve_test.py PROGRAM NAME...   runs the named checks, or all
"""

import contextlib
import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import cli_test
from cli_test import refuses, works, wrong
from use_test import expect, trained

PATIENCE = 120
TEMPLATE = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")


@contextlib.contextmanager
def served(*words, code=0):
    """Starts `troupe serve` and gives its port and process. Ends it by SIGTERM."""
    run = subprocess.Popen([cli_test.PROGRAM, "serve", "--port", "0", *map(str, words)], stdout=subprocess.PIPE)
    try:
        line = run.stdout.readline().decode()
        if not (found := re.search(r" at http://127\.0\.0\.1:(\d+)/", line)):
            raise wrong(f"troupe serve prints: {line!r}")
        yield int(found[1]), run
        run.send_signal(signal.SIGTERM)
        expect(run.wait(PATIENCE), code, "exit code after SIGTERM")
    finally:
        run.kill()
        run.wait()
        run.stdout.close()


def ask(port, path, body=None, headers=None, raw=None):
    """Returns the status and the JSON or text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        data = raw if raw is not None else None if body is None else json.dumps(body)
        connection.request("GET" if data is None else "POST", path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()


def good(port, path, body=None, **more):
    status, answer = ask(port, path, body, **more)
    expect(status, 200, f"{path}: {answer}")
    return answer


def refused(port, status, says, path, body=None, **more):
    found, answer = ask(port, path, body, **more)
    if found != status or says not in answer["error"]["message"]:
        raise wrong(f"{path}: status {found}, {answer}; expected {status} with '{says}'")
    return answer["error"]


def events(text):
    """The server-sent events of a text, which must end as OpenAI's do."""
    parts = [x.removeprefix("data: ") for x in text.split("\n\n")]
    expect(parts[-2:], ["[DONE]", ""], "the end of a stream")
    return [json.loads(x) for x in parts[:-2]]


def endless(folder):
    """A model whose texts are long: its context is 200,000 tokens."""
    return ["--load", trained(folder, "--position-embedding-type", "rope"), "--max-context", 200000]


def begun_stream(port, **more):
    """A socket that has got the first event of an endless stream."""
    body = json.dumps({"prompt": "The", "max_tokens": 100000, "stream": True, "ignore_eos": True,
                       **more})
    to = socket.create_connection(("127.0.0.1", port), PATIENCE)
    to.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
               .encode())
    seen = b""
    while b"data: " not in seen:
        if not (part := to.recv(4096)):
            raise wrong(f"the stream ends with {seen}")
        seen += part
    return to


def until(port, name, value):
    """Waits until a metric has this value."""
    end = time.monotonic() + PATIENCE
    while f"\n{name} {value}" not in (page := good(port, "/metrics")):
        if time.monotonic() > end:
            raise wrong(f"{name} does not become {value}:\n{page}")
        time.sleep(0.02)


def check_completions(folder):
    save = trained(folder)
    told = works("generate", "--load", save, "--prompt", "The", "--tokens", 8, "--greedy")
    with served("--load", save, "--served-model-name", "small") as (port, _):
        expect([x["id"] for x in good(port, "/v1/models")["data"]], ["small"], "models")
        expect(good(port, "/v1/models/small")["id"], "small", "one model")
        expect(good(port, "/health"), {"status": "ok"}, "health")
        asked = {"model": "small", "prompt": "The", "max_tokens": 8, "temperature": 0}
        whole = good(port, "/v1/completions", asked)
        choice = whole["choices"][0]
        expect("The" + choice["text"] + "\n", told, "greedy text of generate")
        usage = whole["usage"]
        expect(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"], "usage")
        ids = good(port, "/tokenize", {"prompt": "The"})
        expect(usage["prompt_tokens"], ids["count"], "tokens of the prompt")
        expect(good(port, "/detokenize", {"tokens": ids["tokens"]}), {"prompt": "The"}, "decoded tokens")
        stream = events(good(port, "/v1/completions", {**asked, "stream": True,
                                                                 "stream_options": {"include_usage": True}}))
        expect("".join(x["choices"][0]["text"] for x in stream if x["choices"]), choice["text"], "streamed text")
        expect(stream[-1]["usage"], usage, "usage of a stream")
        expect(stream[-2]["choices"][0]["finish_reason"], choice["finish_reason"], "end of a stream")
        by_ids = good(port, "/v1/completions", {**asked, "prompt": ids["tokens"]})
        expect(by_ids["choices"][0]["text"], choice["text"], "text by ids")
        # Draws depend on the seed alone, not on the neighbours.
        drawn = {"prompt": "The", "max_tokens": 6, "seed": 5}
        alone = good(port, "/v1/completions", drawn)["choices"][0]["text"]
        with_others = good(port, "/v1/completions", {**drawn, "n": 3})["choices"]
        expect(with_others[0]["text"], alone, "seeded text")
        scored = good(port, "/v1/completions", {"prompt": "The actor", "max_tokens": 0, "echo": True, "logprobs": 1})
        found = scored["choices"][0]["logprobs"]
        expect(found["token_logprobs"][0], None, "log-probability of the first token")
        expect("".join(found["tokens"]), "The actor", "tokens of a prompt")
        if not all(x < 0 for x in found["token_logprobs"][1:]) or len(found["tokens"]) < 2:
            raise wrong(f"log-probabilities of a prompt: {found}")
        word = choice["text"][2:4]
        cut = good(port, "/v1/completions", {**asked, "stop": [word]})["choices"][0]
        expect((cut["text"], cut["finish_reason"]), (choice["text"][:choice["text"].index(word)], "stop"),
               "a stop text")
        page = good(port, "/metrics")
        if 'troupe_serving_answers_total{path="/v1/completions",status="200"}' not in page:
            raise wrong(f"metrics: {page}")


def check_chat(folder):
    save = trained(folder, "--position-embedding-type", "rope")
    (folder / "own.jinja").write_text(TEMPLATE)
    with served("--load", save, "--template", folder / "own.jinja", "--max-context", 512, "--web") as (port, _):
        asked = {"messages": [{"role": "user", "content": "The actor"}], "max_completion_tokens": 5,
                 "temperature": 0}
        whole = good(port, "/v1/chat/completions", asked)
        message = whole["choices"][0]["message"]
        expect(message["role"], "assistant", "role")
        stream = events(good(port, "/v1/chat/completions", {**asked, "stream": True, "logprobs": True,
                                                                      "top_logprobs": 2}))
        expect("".join(x["choices"][0]["delta"].get("content", "") for x in stream), message["content"],
               "streamed chat")
        expect(stream[0]["choices"][0]["delta"]["role"], "assistant", "role of a stream")
        some = [y for x in stream if x["choices"][0]["logprobs"] for y in x["choices"][0]["logprobs"]["content"]]
        if not some or any(len(x["top_logprobs"]) != 2 for x in some):
            raise wrong(f"log-probabilities of a stream: {some}")
        page = good(port, "/")
        if "/page/chat.js" not in page or "chat/completions" not in good(port, "/page/chat.js"):
            raise wrong("the chat page is not complete")
    with served("--load", save, "--max-context", 512) as (port, _):
        refused(port, 400, "has no chat template", "/v1/chat/completions", asked)
        refused(port, 404, "nothing is served", "/")


def check_errors(folder):
    with served("--load", trained(folder), "--max-body", 1, "--host-names", "kiwi") as (port, _):
        where = "/v1/completions"
        expect(refused(port, 404, "not served here", where, {"model": "x"})["code"], "model_not_found", "code")
        expect(refused(port, 400, "temperature", where, {"temperature": -1})["param"], "temperature", "param")
        refused(port, 400, "unknown field 'temprature'", where, {"temprature": 1})
        refused(port, 400, "not JSON", where, raw="{")
        expect(refused(port, 400, "shorten the prompt", where, {"prompt": "word " * 99})["code"],
               "context_length_exceeded", "code of a long prompt")
        refused(port, 413, "exceeds", where, {"prompt": "a" * 2**20})
        refused(port, 404, "nothing is served", "/v1/nothing", {})
        refused(port, 405, "accepts only POST", where)
        refused(port, 400, "gives no vectors", "/v1/embeddings", {"input": "a"})
        refused(port, 403, "not a name of this server", "/health", headers={"Host": "evil"})
        good(port, "/health", headers={"Host": "kiwi"})
        # One connection serves many requests.
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for _ in range(3):
            connection.request("POST", where, json.dumps({"prompt": "The", "max_tokens": 2}))
            answer = connection.getresponse()
            expect(answer.status, 200, answer.read())
            if connection.sock is None:
                raise wrong("the server closes the connection after an answer")
        connection.close()
    refuses("--load DIR is missing", "serve")
    (folder / "none").write_text("# no key\n")
    refuses("has no keys", "serve", "--load", folder, "--api-key-file", folder / "none")


def check_keys(folder):
    (folder / "keys").write_text("# keys\nfirst\n  second  \n")
    with served("--load", trained(folder), "--api-key-file", folder / "keys") as (port, _):
        good(port, "/health")
        for key in [{}, {"Authorization": "Bearer third"}, {"Authorization": "first"}]:
            expect(refused(port, 401, "no valid key", "/v1/models", headers=key)["code"], "invalid_api_key", "code")
        for key in ["first", "second"]:
            good(port, "/v1/models", headers={"Authorization": f"Bearer {key}"})


def check_cancel(folder):
    """A client that leaves frees its place, whether it waits for a stream or for a whole answer."""
    with served(*endless(folder), "--max-running", 1, "--max-waiting", 1) as (port, _):
        running, waiting = begun_stream(port), None
        body = json.dumps({"prompt": "The", "max_tokens": 100000, "ignore_eos": True})
        waiting = socket.create_connection(("127.0.0.1", port), PATIENCE)
        waiting.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                        .encode())
        until(port, "troupe_serving_open_texts", 2)
        expect(refused(port, 429, "try again later", "/v1/completions", {"prompt": "The"})["code"],
               "rate_limit_exceeded", "code of a full queue")
        waiting.close()
        until(port, "troupe_serving_cancelled_total", 1)
        # An abrupt end, as of a killed client.
        running.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        running.close()
        until(port, "troupe_serving_open_texts", 0)
        good(port, "/v1/completions", {"prompt": "The", "max_tokens": 2})


def check_slow(folder):
    """A client that does not read is cut off, and a request that takes too long is ended."""
    with served(*endless(folder), "--request-timeout", 2) as (port, _):
        asleep = begun_stream(port)
        refused(port, 503, "longer than 2 s", "/v1/completions",
                {"prompt": "The", "max_tokens": 100000, "ignore_eos": True})
        until(port, "troupe_serving_open_texts", 0)
        asleep.close()


def check_drain(folder):
    """SIGTERM lets running requests finish and refuses new ones."""
    with served(*endless(folder)) as (port, run):
        running = begun_stream(port, max_tokens=300)
        run.send_signal(signal.SIGTERM)
        text = b""
        while b"[DONE]" not in text:
            if not (part := running.recv(65536)):
                raise wrong(f"a drained server cuts its stream after {text[-200:]}")
            text += part
        running.close()
        expect(run.wait(PATIENCE), 0, "exit code of a drained server")
    with served(*endless(folder), code=128 + signal.SIGTERM) as (port, run):
        running = begun_stream(port)
        run.send_signal(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while ask(port, "/health")[0] != 503:
            if time.monotonic() > end:
                raise wrong("a server that drains stays healthy")
        refused(port, 503, "ends", "/v1/completions", {"prompt": "The"})
        run.send_signal(signal.SIGTERM)  # the second one ends it at once
        expect(run.wait(PATIENCE), 128 + signal.SIGTERM, "exit code after two signals")
        running.close()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
