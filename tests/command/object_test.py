"""Training with data from an S3 service on loopback (tests/support/s3_server.py). Run by ctest.

    object_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import time

import cli_test
from cli_test import SMALL, run, works, wrong

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import s3_server  # noqa: E402
from s3_server import Server  # noqa: E402

KEYS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TOKEN = "session/token+of==a//test"
CHUNK = 2 << 20
OURS = [name for name in os.environ if name.startswith("AWS_")]


def data_set(folder, name, documents, length):
    """Writes <name>.bin and .idx with uint16 tokens, in Megatron-LM's format."""
    tokens = b"".join(struct.pack(f"<{length}H", *((i * 31 + k * k) % 99 for k in range(length)))
                      for i in range(documents))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, documents, documents + 1)
    index += struct.pack(f"<{documents}i", *[length] * documents)
    index += struct.pack(f"<{documents}q", *(2 * length * i for i in range(documents)))
    index += struct.pack(f"<{documents + 1}q", *range(documents + 1))
    (folder / f"{name}.bin").write_bytes(tokens)
    (folder / f"{name}.idx").write_bytes(index)


def environment(folder, server=None, **more):
    """Sets the AWS variables of a test; removes all others."""
    for name in [*OURS, *(x for x in os.environ if x.startswith("AWS_"))]:
        os.environ.pop(name, None)
    os.environ["HOME"] = str(folder)
    os.environ["no_proxy"] = "127.0.0.1"
    if server:
        os.environ["AWS_ENDPOINT_URL"] = server.address
        if server.keys:
            os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = server.keys
        if server.token:
            os.environ["AWS_SESSION_TOKEN"] = server.token
    os.environ.update(more)


def objects(folder, *names):
    return {f"lake/deep dir+é/{x.name}": x.read_bytes() for name in names
            for x in (folder / f"{name}.bin", folder / f"{name}.idx")}


def job(folder, *data):
    return ["train", "gpt", *SMALL, "--tokenizer-type", "NullTokenizer", "--vocab-size", 100, "--split",
            "90,10,0", "--object-storage-cache-path", folder / "indices", *data]


def losses(words):
    code, out, err = run(*words)
    if code != 0:
        raise wrong(f"{words}: exit code {code}\n{out}{err}")
    for secret in (KEYS[1], TOKEN):
        if secret in out + err:
            raise wrong(f"a secret is printed:\n{out}{err}")
    return [x.split("lm loss")[1] for x in out.splitlines() if "lm loss" in x], out + err


def refused(says, words, *more):
    code, out, err = run(*words)
    for x in (says, *more):
        if x not in err:
            raise wrong(f"no '{x}' in:\n{out}{err}")
    if code != 2 or KEYS[1] in out + err or TOKEN in out + err:
        raise wrong(f"exit code {code}\n{out}{err}")


def equal_states(a, b):
    code, out, err = run("checkpoint", "diff", a, b)
    if code != 0:
        raise wrong(f"the states of '{a}' and '{b}' differ:\n{out}{err}")


def check_same(folder):
    """Objects and files with the same bytes give the same losses, states and identity. The index is read once."""
    data_set(folder, "a", 40, 64000)  # three chunks
    data_set(folder, "b", 30, 50)
    blends = [["a"], ["0.3", "a", "0.7", "b"]]
    with Server(objects(folder, "a", "b"), KEYS, TOKEN) as server:
        environment(folder, server)
        for n, blend in enumerate(blends):
            at = {"files": folder, "objects": "s3://lake/deep dir+é"}
            seen = {}
            for kind, place in at.items():
                data = [f"{place}/{x}" if x in "ab" else x for x in blend]
                seen[kind] = losses([*job(folder, "--data-path", *data), "--save", folder / f"{kind}{n}"])
            if seen["files"][0] != seen["objects"][0] or not seen["files"][0]:
                raise wrong(f"losses: {seen}")
            equal_states(folder / f"files{n}", folder / f"objects{n}")
        chunks = {x for name, x, _ in server.seen if name == "lake/deep dir+é/a.bin"}
        if len(chunks) != 3 or not all(signed for _, _, signed in server.seen):
            raise wrong(f"requests: {server.seen}")
        # A second run uses the cached index, after one request to check that it is current.
        server.seen.clear()
        words = job(folder, "--train-data-path", "s3://lake/deep dir+é/a", "--valid-data-path", "s3://lake/deep dir+é/b")
        words = [x for i, x in enumerate(words) if "--split" not in (x, words[i - 1])]
        losses(words)
        if [name for name, _, _ in server.seen].count("lake/deep dir+é/a.idx") != 1:
            raise wrong(f"the index was read again: {server.seen}")
        # A run from objects resumes with files as the same run.
        more = job(folder, "--data-path", folder / "a")
        more[more.index("--train-iters") + 1] = 6
        said = losses([*more, "--load", folder / "objects0"])[1]
        if "another identity" in said:
            raise wrong(f"files and objects have different identities: {said}")
        for file in (folder / "indices").glob("*.object"):
            file.write_bytes(b"?" + file.read_bytes()[1:])
        if "is damaged" not in losses(job(folder, "--data-path", "s3://lake/deep dir+é/a"))[1]:
            raise wrong("a damaged index of the cache is used")


def check_retries(folder):
    """Temporary failures are retried without effect on the run; permanent ones end it."""
    data_set(folder, "a", 30, 50)
    words = job(folder, "--data-path", "s3://lake/deep dir+é/a")
    with Server(objects(folder, "a"), KEYS) as server:
        environment(folder, server)
        plain, _ = losses(words)
        for fault in (s3_server.status(503, "SlowDown"), s3_server.status(429, "TooManyRequests"),
                      s3_server.status(500, "InternalError"), s3_server.closed, s3_server.cut):
            server.plant("lake/deep dir+é/a.bin", fault, times=2)
            again, said = losses(words)
            if again != plain or "attempt 1 of 6" not in said:
                raise wrong(f"{again} and {plain}: {said}")
        server.plant("lake/deep dir+é/a.bin", s3_server.status(503, "SlowDown"), times=99)
        refused("HTTP 503 SlowDown", words, "s3://lake/deep dir+é/a.bin", "6 attempts")


def check_refusals(folder):
    """Each error names bucket and key, the HTTP status and code, and a remedy."""
    data_set(folder, "a", 30, 50)
    words = job(folder, "--data-path", "s3://lake/deep dir+é/a")
    name = "lake/deep dir+é/a.bin"
    with Server(objects(folder, "a"), KEYS, TOKEN) as server:
        environment(folder, server)
        for fault, says in [(s3_server.status(403, "AccessDenied"), "HTTP 403 AccessDenied"),
                            (s3_server.status(404, "NoSuchBucket"), "HTTP 404 NoSuchBucket"),
                            (s3_server.short, "announces 3000 bytes but has 2999"),
                            (s3_server.shifted, "has bytes 1 to 2999 of 3000"),
                            (s3_server.with_etag('W/"1"'), "no strong ETag"),
                            (s3_server.with_etag(None), "no strong ETag")]:
            server.plant(name, fault)
            refused(says, words, "s3://lake/deep dir+é/a.bin")
        server.plant(name, s3_server.whole)
        refused("HTTP 200", words)
        refused("HTTP 404 NoSuchKey", job(folder, "--data-path", "s3://lake/deep dir+é/none"),
                "s3://lake/deep dir+é/none.idx", "check the bucket")
        refused("names no object", job(folder, "--data-path", "s3://lake"))
        refused("--object-storage-cache-path", [x for x in words if x not in (
            "--object-storage-cache-path", folder / "indices")])
        environment(folder, server, AWS_SECRET_ACCESS_KEY="another")
        refused("HTTP 403 SignatureDoesNotMatch", words, "check that these keys")
        environment(folder, server)
        del os.environ["AWS_SECRET_ACCESS_KEY"]
        refused("not the secret access key", words)
        environment(folder, AWS_ENDPOINT_URL=server.address)
        refused("HTTP 403 AccessDenied", words, "AWS_ACCESS_KEY_ID")
        environment(folder, server, AWS_PROFILE="unknown")
        refused("AWS_PROFILE 'unknown'", words)


def check_profiles(folder):
    """Reads keys and endpoint from the files of the AWS tools. Public objects need no keys."""
    data_set(folder, "a", 30, 50)
    words = job(folder, "--data-path", "s3://lake/deep dir+é/a")
    with Server(objects(folder, "a"), KEYS, TOKEN) as server:
        (folder / ".aws").mkdir()
        (folder / ".aws/credentials").write_text(
            f"[default]\naws_access_key_id = no\naws_secret_access_key = no\n\n[mine]\n"
            f"aws_access_key_id = {KEYS[0]}\naws_secret_access_key={KEYS[1]}\naws_session_token = {TOKEN}\n")
        (folder / ".aws/config").write_text(
            f"[profile mine]\nregion = eu-north-1\ns3 =\n  max_concurrent_requests = 20\n"
            f"endpoint_url = {server.address}/\n")
        environment(folder, AWS_PROFILE="mine")
        losses(words)
    with Server(objects(folder, "a")) as server:
        (folder / ".aws/credentials").unlink()
        environment(folder, server)
        losses(words)
        if any(signed for _, _, signed in server.seen):
            raise wrong(f"an anonymous request is signed: {server.seen}")


def check_manifest(folder):
    """Checks the tokenizer in a data set's manifest in object storage, too. A missing or unreadable manifest is
    ignored."""
    text = folder / "a.txt"
    text.write_text("The actor bows.\n\nThe stage is dark.\n\n" * 200)
    for name, size in (("one", 280), ("two", 270)):
        works("tokenizer", "train", "--input", text, "--vocab-size", size, "--output", folder / name)
    works("preprocess", "--input", text, "--output-prefix", folder / "a", "--tokenizer", folder / "one")
    at = {f"lake/{x.name}": x.read_bytes() for x in folder.glob("a_text_document.*")}
    manifest = "lake/a_text_document.manifest.json"
    words = [*job(folder, "--data-path", "s3://lake/a_text_document"), "--tokenizer", folder / "two"]
    for flag in ("--tokenizer-type", "--vocab-size"):
        del words[words.index(flag):words.index(flag) + 2]
    with Server(at, KEYS) as server:
        environment(folder, server)
        refused("written by another tokenizer", words, "s3://lake/a_text_document")
        losses([*words[:-1], folder / "one"])
        server.plant(manifest, s3_server.status(403, "AccessDenied"))
        losses([*words[:-1], folder / "one"])
    del at[manifest]
    with Server(at, KEYS) as server:
        environment(folder, server)
        losses([*words[:-1], folder / "one"])


def check_changed(folder):
    """An object that is overwritten while the run reads it ends the run."""
    data_set(folder, "a", 40, 64000)
    words = job(folder, "--data-path", "s3://lake/deep dir+é/a")
    with Server(objects(folder, "a")) as server:
        environment(folder, server)
        name = "lake/deep dir+é/a.bin"

        def changes(handler, answer):
            handler.answer(*answer)
            server.objects[name] = server.objects[name][:-2] + b"\0\0"

        server.plant(name, changes)
        refused("changed during the run", words, "s3://lake/deep dir+é/a.bin", "HTTP 412")
        # Detected by the ETag even if the service ignores If-Match.
        server.plant(name, s3_server.with_etag('"other"'), times=9, after=1)
        refused("changed during the run", words, '"other"')


def check_ahead(folder):
    """Requests several upcoming chunks in parallel; the run stays the same."""
    data_set(folder, "a", 40, 64000)
    plain, _ = losses(job(folder, "--data-path", folder / "a"))
    name = "lake/deep dir+é/a.bin"
    with Server(objects(folder, "a"), KEYS) as server:
        environment(folder, server)
        # The first chunk comes with the size. The server answers the other two only after both requests have arrived.
        server.plant(name, s3_server.together(2), times=2, after=1)
        again, said = losses(job(folder, "--data-path", "s3://lake/deep dir+é/a"))
        if again != plain or "attempt" in said:
            raise wrong(f"{again} and {plain}: {said}")
        asked = [x for which, x, _ in server.seen if which == name]
        if len(asked) != 3 or len(set(asked)) != 3:
            raise wrong(f"a chunk was requested twice, or not at all: {asked}")


def check_conversations(folder):
    """Fine-tuning from objects equals that from files, and also requests chunks in parallel."""
    text = folder / "talk.jsonl"
    text.write_text("".join(json.dumps({"messages": [
        {"role": "user", "content": f"{k} bows"}, {"role": "assistant", "content": f"{k} stays dark. " * 700}]}) + "\n"
        for k in range(600)))
    (folder / "bytes.txt").write_text("ab\n")
    works("tokenizer", "train", "--input", folder / "bytes.txt", "--vocab-size", 257, "--output", folder / "tok")
    works("conversations", "--input", text, "--output-prefix", folder / "talk", "--format", "identity",
          "--tokenizer", folder / "tok")
    chunks = -(-(folder / "talk_conversations.bin").stat().st_size // CHUNK)
    words = [*job(folder, "--sft", "--tokenizer", folder / "tok"), "--data-path"]
    for flag in ("--tokenizer-type", "--vocab-size"):
        del words[words.index(flag):words.index(flag) + 2]
    plain, _ = losses([*words, folder / "talk_conversations"])
    with Server({f"lake/{x.name}": x.read_bytes() for x in folder.glob("talk_conversations*")}, KEYS) as server:
        environment(folder, server)
        name = "lake/talk_conversations.bin"
        server.plant(name, s3_server.together(2), times=2, after=1)
        again, said = losses([*words, "s3://lake/talk_conversations"])
        if again != plain or "attempt" in said or chunks < 5:
            raise wrong(f"{again} and {plain} of {chunks} chunks: {said}")
        asked = [x for which, x, _ in server.seen if which == name]
        if len(asked) != len(set(asked)):
            raise wrong(f"a chunk was requested twice: {asked}")


def check_signal(folder):
    """A run that waits for an object ends soon after SIGTERM, before all retries."""
    data_set(folder, "a", 40, 64000)
    words = job(folder, "--data-path", "s3://lake/deep dir+é/a")
    with Server(objects(folder, "a")) as server:
        environment(folder, server)
        # The first chunk comes with the size; training needs the others.
        server.plant("lake/deep dir+é/a.bin", s3_server.mute, times=9, after=1)
        with subprocess.Popen([cli_test.PROGRAM, *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as it:
            if not server.waits.wait(60):
                it.kill()
                raise wrong("the run did not request a second chunk")
            began = time.monotonic()
            it.terminate()
            said = it.communicate(timeout=200)[0].decode("utf8", "replace")
            took = time.monotonic() - began
    # object_limits::grace is 10 s, and curl checks once a second. Six attempts of 20 s would take two minutes.
    if it.returncode != 2 or "told to end" not in said or "s3://lake/deep dir+é/a.bin" not in said or took > 19:
        raise wrong(f"exit code {it.returncode} after {took:.1f} s:\n{said}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
