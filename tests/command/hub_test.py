"""Models of a Hugging Face Hub on loopback, which this test makes. Run by ctest.

    hub_test.py PROGRAM NAME...   runs the named checks, or all
"""

import hashlib
import http.server
import json
import os
import re
import struct
import sys
import threading

import cli_test
from cli_test import MOCK, SMALL, refuses, run, tokenizer, works, wrong

COMMIT, NEXT_COMMIT = "0123456789abcdef" * 2 + "01234567", "fedcba9876543210" * 2 + "fedcba98"
TOKEN = "hf_secretOfTheTest"
VOCABULARY, HIDDEN, POSITIONS = 300, 8, 16
WEIGHTS = "model-00002-of-00002.safetensors"  # the larger one


class Server:
    """Calls `answer` with the handler of each request."""

    def __init__(self, answer):
        self.seen = []  # (method, path, headers)
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.command, self.path, dict(self.headers)))
                answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

            def say(self, status, body=b"", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Hub:
    """One model, `org/tiny`; its large files are on another host."""

    def __init__(self, files):
        self.files, self.commit = files, COMMIT
        self.cut = self.damaged = 0  # of the next answers of the other host
        self.status = None           # of the API: (status, X-Error-Code)
        self.stores = Server(self.store)
        self.pages = Server(self.page)

    def close(self):
        self.pages.close()
        self.stores.close()

    def page(self, to):
        if "/org/old/" in to.path:  # a model that was renamed
            return to.say(307, Location=to.path.replace("/org/old/", "/org/tiny/"))
        if to.path.startswith("/api/"):
            return self.api(to)
        name = to.path.removeprefix(f"/org/tiny/resolve/{self.commit}/")
        if name not in self.files:
            return to.say(404, X_Error_Code="EntryNotFound")
        data = self.files[name]
        if not name.endswith(".safetensors"):
            return to.say(200, data, ETag=f'"{git_hash(data)}"', X_Repo_Commit=self.commit)
        hash_ = hashlib.sha256(data).hexdigest()
        return to.say(302, X_Linked_Etag=f'"{hash_}"', X_Linked_Size=str(len(data)), X_Repo_Commit=self.commit,
                      Location=f"{self.stores.address}/{name}?signature=1")

    def api(self, to):
        if self.status:
            return to.say(self.status[0], X_Error_Code=self.status[1])
        found = re.fullmatch(r"/api/models/(.*)/revision/(.*)", to.path)
        if found[1] != "org/tiny":
            return to.say(404, X_Error_Code="RepoNotFound")
        if found[2] not in ("main", "refs%2Fpr%2F1", self.commit):
            return to.say(404, X_Error_Code="RevisionNotFound")
        listing = {"sha": self.commit, "siblings": [{"rfilename": x} for x in [*self.files, "README.md"]]}
        return to.say(200, json.dumps(listing).encode())

    def store(self, to):
        data = self.files[to.path[1:].split("?")[0]]
        first = int((to.headers.get("Range") or "bytes=0-")[6:-1])
        if self.damaged > 0:
            self.damaged -= 1
            data = data[:-1] + bytes([data[-1] ^ 1])
        rest = data[first:]
        to.send_response(206 if first else 200)
        to.send_header("Content-Length", str(len(rest)))
        if first:
            to.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        to.end_headers()
        if self.cut > 0:
            self.cut -= 1
            rest = rest[:len(rest) // 2]
        to.wfile.write(rest)

    def uses(self, home, **more):
        """Sets the variables of the program; returns the folder of the model in the cache."""
        for name in [x for x in os.environ if x.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))]:
            del os.environ[name]
        os.environ.update({"HOME": str(home), "HF_HOME": str(home), "HF_ENDPOINT": self.pages.address,
                           "HF_TOKEN": TOKEN, "no_proxy": "127.0.0.1", **more})
        self.pages.seen.clear()
        self.stores.seen.clear()
        return home / "hub" / "models--org--tiny"


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def tensors_file(tensors):
    head, data = {}, b""
    for name, extents in tensors.items():
        count = 1
        for x in extents:
            count *= x
        values = struct.pack(f"<{count}f", *((i * 7 % 11 - 5) / 10 for i in range(count)))
        head[name] = {"dtype": "F32", "shape": extents, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def tiny_model(folder):
    """A GPT-2 of one layer in two safetensors files, with a tokenizer: name to bytes."""
    tok, C = tokenizer(folder), HIDDEN
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_embd": C,
              "n_head": 1, "n_layer": 1, "n_positions": POSITIONS, "n_inner": None, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    parts = [{"wpe.weight": [POSITIONS, C], "ln_f.weight": [C], "ln_f.bias": [C]}, {"wte.weight": [VOCABULARY, C]}]
    for name, rows, columns in [("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("mlp.c_fc", C, 4 * C),
                                ("mlp.c_proj", 4 * C, C)]:
        parts[1][f"h.0.{name}.weight"], parts[1][f"h.0.{name}.bias"] = [rows, columns], [columns]
    for name in ["ln_1", "ln_2"]:
        parts[0][f"h.0.{name}.weight"] = parts[0][f"h.0.{name}.bias"] = [C]
    names = ["model-00001-of-00002.safetensors", WEIGHTS]
    index = {"weight_map": {tensor: name for name, part in zip(names, parts) for tensor in part}}
    files = {name: tensors_file(part) for name, part in zip(names, parts)}
    files |= {x.name: x.read_bytes() for x in tok.iterdir() if x.name in ("vocab.json", "merges.txt")}
    files |= {"config.json": json.dumps(config).encode(), "model.safetensors.index.json": json.dumps(index).encode()}
    files["additional_chat_templates/tools.jinja"] = b"{{ messages }}"
    local = folder / "local"
    for name, data in files.items():
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(data)
    return files, local


def encode(name):
    return ["tokenizer", "encode", "--text", "The actor waits", "--tokenizer", name]


def generate(name):
    return ["generate", "--prompt", "The actor", "--tokens", 3, "--greedy", "--load", name]


def expect(seen, wanted, what):
    if seen != wanted:
        raise wrong(f"{what}: {seen!r}, expected {wanted!r}")


def same(words, name, local):
    """The name of the Hub does what the local folder does. Returns what is told on standard error."""
    code, out, err = run(*words(name))
    if code != 0 or out != works(*words(local)) or TOKEN in out + err:
        raise wrong(f"{words(name)}: exit code {code}\n{out}{err}")
    return err


def require_layout(cache, files, names):
    expect((cache / "refs" / "main").read_text(), COMMIT, "refs/main")
    found = {x.relative_to(cache / "snapshots" / COMMIT).as_posix() for x in (cache / "snapshots" / COMMIT).rglob("*")
             if x.is_file()}
    expect(found, set(names), "files of the snapshot")
    for name in names:
        link, data = cache / "snapshots" / COMMIT / name, files[name]
        etag = hashlib.sha256(data).hexdigest() if name.endswith(".safetensors") else git_hash(data)
        up = "../" * (name.count("/") + 2)
        expect(os.readlink(link), f"{up}blobs/{etag}", f"the link of {name}")
        expect(link.read_bytes(), data, name)


def check_downloads(folder):
    """Every way to name a model, with the requests that it costs; the token stays with the endpoint (DOWNLOAD-1)."""
    files, local = tiny_model(folder)
    small = [x for x in files if not x.endswith(".safetensors") and "index" not in x]
    hub = Hub(files)
    cache = hub.uses(folder / "a")
    said = same(encode, "org/tiny", local)
    for x in [f"downloading 'org/tiny', commit {COMMIT}: {len(small)} files", str(cache)]:
        if x not in said:
            raise wrong(f"no '{x}' in: {said}")
    require_layout(cache, files, small)
    # A second use asks for the commit of the branch alone; a commit, or no network, for nothing.
    hub.uses(folder / "a")
    expect(same(encode, "org/tiny", local), "", "told at the second use")
    expect(len(hub.pages.seen), 1, "requests of the second use")
    expect(same(encode, f"org/tiny@{COMMIT}", local), "", "told of a commit")
    hub.uses(folder / "a", HF_HUB_OFFLINE="1")
    same(encode, "org/tiny", local)
    expect(hub.pages.seen, [], "requests offline")
    hub.uses(folder / "a", HF_ENDPOINT="http://127.0.0.1:9")
    if "using commit " + COMMIT not in same(encode, "org/tiny", local):
        raise wrong("an unreachable server is not told")
    # A forecast needs no weights. A run needs them, and keeps the commit in its configuration.
    hub.uses(folder / "a")
    train = ["train", "gpt", *SMALL[8:], "--mock-data", "--data-cache-path", cli_test.INDEX, "--load-hf", "org/tiny"]
    expect(works("memory", *train[2:-2], "--load", local), works("memory", *train[2:]), "the forecast of --load")
    works(*train, "--dry-run")
    refuses("--lr is missing", *[x for i, x in enumerate(train) if "--lr" not in (x, train[i - 1])])
    expect(hub.stores.seen, [], "requests of a forecast")
    works(*train, "--train-iters", 1, "--save", folder / "run")
    if f"org/tiny@{COMMIT}" not in (folder / "run" / "config.yaml").read_text():
        raise wrong("the configuration does not name the commit:\n" + (folder / "run" / "config.yaml").read_text())
    require_layout(cache, files, files)
    for words in [[*train[:-1], folder / "run"], ["checkpoint", "import", "--hf", folder / "run", "--save", folder / "x"]]:
        refuses("it needs no import: training, `troupe generate` and `troupe eval` take it with --load", *words)
    refuses(f"did you mean '{folder}/run/tokenizer'?", *encode(folder / "run"))
    asked = {bool(x[2].get("Authorization")) for x in hub.pages.seen}
    leaked = [x for x in hub.stores.seen if "Authorization" in x[2]]
    if asked != {True} or leaked or len(hub.stores.seen) != 2:
        raise wrong(f"headers: {hub.pages.seen}\n{hub.stores.seen}")
    expect({x[2].get("Authorization") for x in hub.pages.seen}, {f"Bearer {TOKEN}"}, "token")
    same(generate, "org/tiny", local)
    works("checkpoint", "import", "--hf", "org/old", "--save", folder / "imported")
    hub.files, hub.commit = {**files, "config.json": files["config.json"] + b" "}, NEXT_COMMIT
    same(encode, "org/tiny@refs/pr/1", local)
    expect((cache / "refs" / "refs" / "pr" / "1").read_text(), NEXT_COMMIT, "refs/refs/pr/1")
    expect((cache / "refs" / "main").read_text(), COMMIT, "refs/main")
    hub.close()
    expect(same(generate, f"org/tiny@{COMMIT}", local), "", "told without a server")


def check_faults(folder):
    """Downloads that break off, wrong bytes (DOWNLOAD-2), and models that are not there."""
    files, local = tiny_model(folder)
    hub = Hub(files)
    size, hash_ = len(files[WEIGHTS]), hashlib.sha256(files[WEIGHTS]).hexdigest()
    # A connection that breaks off, and then the rest that an earlier process left.
    hub.uses(folder / "cut")
    hub.cut = 2
    same(generate, "org/tiny", local)
    ranges = [x[2]["Range"] for x in hub.stores.seen if "Range" in x[2]]
    expect(len(ranges), 2, "requests of the rest")
    cache = hub.uses(folder / "rest")
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / f"{hash_}.incomplete").write_bytes(files[WEIGHTS][:1000])
    if "of which 1 kB are in the cache" not in same(generate, "org/tiny", local):
        raise wrong("the earlier part is not told")
    expect([x[2].get("Range") for x in hub.stores.seen if WEIGHTS in x[1]], ["bytes=1000-"], "range of the rest")
    # An earlier part of something else is downloaded again; wrong bytes of the server are refused.
    cache = hub.uses(folder / "other")
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / f"{hash_}.incomplete").write_bytes(b"x" * (size - 1))
    same(generate, "org/tiny", local)
    cache = hub.uses(folder / "damaged")
    hub.damaged = 1
    refuses("has the hash", *generate("org/tiny"))
    if [x.name for x in (cache / "blobs").iterdir() if len(x.name) > 40]:
        raise wrong("damaged bytes are kept")
    same(generate, "org/tiny", local)
    # Missing models, and gated ones.
    hub.uses(folder / "empty")
    for status, says in [((404, "RepoNotFound"), "has no such model"), ((401, ""), "it is private or restricted"),
                         ((401, "GatedRepo"), "access to this model is restricted"),
                         ((403, "GatedRepo"), f"accept its conditions on {hub.pages.address}/org/tiny"),
                         ((200, ""), "as answers of a Hugging Face Hub have")]:
        hub.status = status
        refuses(says, *encode("org/tiny"))
    hub.status = None
    refuses("has no branch, tag or commit 'v9'", *encode("org/tiny@v9"))
    refuses("HTTP 404", *encode("org/none"))
    hub.files = {"README.md": b"", "pytorch_model.bin": b"", "config.json": files["config.json"]}
    refuses("has no tokenizer", *encode("org/tiny"))
    refuses("only models saved as safetensors", *generate("org/tiny"))
    hub.uses(folder / "empty", HF_HUB_OFFLINE="1")
    refuses("HF_HUB_OFFLINE forbids", *encode("org/tiny"))
    # Invalid names are refused without a request to a server.
    hub.uses(folder / "empty")
    (folder / "runs").mkdir()
    here = os.getcwd()
    os.chdir(folder)
    try:
        for name in ["nowhere", "runs/a", "/nowhere/at/all", "./org/tiny", "org/tiny@../x"]:
            refuses(f"--tokenizer '{name}': there is no such folder", *encode(name))
            refuses("there is no such folder", *generate(name))
            refuses("there is no such folder", "train", "gpt", *SMALL[8:], *MOCK, "--load-hf", name)
    finally:
        os.chdir(here)
    expect(hub.pages.seen, [], "requests for paths")
    hub.close()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
