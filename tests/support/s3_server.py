"""An S3 service on loopback for tests: ranged reads of objects in memory, If-Match, AWS Signature
Version 4, and planted faults.

    with Server({"bucket/key": b"..."}, keys=("ID", "SECRET")) as server:
        server.plant("bucket/key", status(503, "SlowDown"), times=2)
        ... server.address, server.seen
"""

import hashlib
import hmac
import http.server
import re
import threading

EMPTY = hashlib.sha256(b"").hexdigest()


def status(code, name):
    """Answers with an S3 error."""
    return lambda handler, answer: handler.refuse(code, name)


def closed(handler, answer):
    """Closes the connection without an answer."""
    handler.close_connection = True


def cut(handler, answer):
    """Announces the whole body, sends half of it and closes the connection."""
    handler.answer(*answer, send=len(answer[2]) // 2)
    handler.close_connection = True


def mute(handler, answer):
    """Never answers."""
    handler.server.waits.set()
    handler.server.ends.wait()
    handler.close_connection = True


def together(requests):
    """Answers when `requests` requests wait at once; after 30 s closes the connection instead."""
    meeting = threading.Barrier(requests)

    def wait(handler, answer):
        try:
            meeting.wait(30)
        except threading.BrokenBarrierError:
            handler.close_connection = True
            return
        handler.answer(*answer)
    return wait


def short(handler, answer):
    """Answers with a body that is shorter than its range."""
    code, headers, body = answer
    handler.answer(code, headers, body[:-1])


def shifted(handler, answer):
    """Answers with another range than the requested one."""
    code, headers, body = answer
    first, last, whole = map(int, re.findall(r"\d+", headers["Content-Range"]))
    handler.answer(code, {**headers, "Content-Range": f"bytes {first + 1}-{last}/{whole}"}, body[1:])


def whole(handler, answer):
    """Ignores the range and answers with the whole object."""
    handler.answer(200, answer[1] | {"Content-Range": None}, handler.server.objects[handler.name])


def with_etag(etag):
    return lambda handler, answer: handler.answer(answer[0], {**answer[1], "ETag": etag}, answer[2])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, headers, body, send=None):
        self.send_response(code)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:send])

    def refuse(self, code, name):
        self.answer(code, {"Content-Type": "application/xml"},
                    f"<?xml version='1.0'?><Error><Code>{name}</Code><Message>planted or deserved"
                    f"</Message></Error>".encode())

    def signature_fault(self):
        """The name of the S3 error in this request's signature, or None."""
        said = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
                            self.headers.get("Authorization", ""))
        if not said:
            return "AccessDenied"
        who, day, region, names, signature = said.groups()
        if who != self.server.keys[0]:
            return "InvalidAccessKeyId"
        names = names.split(";")
        if "host" not in names or "x-amz-date" not in names:
            return "AuthorizationHeaderMalformed"
        if self.server.token:
            if self.headers.get("x-amz-security-token") != self.server.token:
                return "InvalidToken"
            if "x-amz-security-token" not in names:
                return "AccessDenied"
        path, _, query = self.path.partition("?")
        body = self.headers.get("x-amz-content-sha256", EMPTY)
        canonical = "\n".join([self.command, path, query,
                               *(f"{n}:{' '.join(self.headers.get(n, '').split())}" for n in names),
                               "", ";".join(names), body])
        scope = f"{day}/{region}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope,
                             hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + self.server.keys[1]).encode()
        for part in (day, region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        wanted = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        return None if hmac.compare_digest(wanted, signature) else "SignatureDoesNotMatch"

    def do_GET(self):
        import urllib.parse
        self.name = urllib.parse.unquote(self.path.lstrip("/"))
        self.server.note(self)
        if self.server.keys and (fault := self.signature_fault()):
            return self.refuse(403, fault)
        planted = self.server.next_fault(self.name)
        body = self.server.objects.get(self.name)
        if body is None:
            return planted(self, None) if planted else self.refuse(404, "NoSuchKey")
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        if self.headers.get("If-Match", etag) != etag:
            return self.refuse(412, "PreconditionFailed")
        code, headers, part = 200, {"ETag": etag}, body
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")):
            first, last = int(asked[1]), min(int(asked[2]), len(body) - 1)
            if first >= len(body):
                return self.refuse(416, "InvalidRange")
            code, part = 206, body[first:last + 1]
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        (planted or (lambda handler, answer: handler.answer(*answer)))(self, (code, headers, part))

    do_HEAD = do_GET


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, objects, keys=None, token=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.keys, self.token = dict(objects), keys, token
        self.seen = []  # (name, Range, whether signed)
        self.faults = []  # [name, fault, remaining times, requests before it]
        self.lock = threading.Lock()
        self.waits, self.ends = threading.Event(), threading.Event()  # used by `mute`
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def plant(self, name, fault, times=1, after=0):
        with self.lock:
            self.faults.append([name, fault, times, after])

    def next_fault(self, name):
        with self.lock:
            for one in self.faults:
                if one[0] != name or one[2] == 0:
                    continue
                if one[3] > 0:
                    one[3] -= 1
                    continue
                one[2] -= 1
                return one[1]
        return None

    def note(self, handler):
        with self.lock:
            self.seen.append((handler.name, handler.headers.get("Range"),
                              "Authorization" in handler.headers))

    def handle_error(self, request, client_address):
        pass  # the client closed the connection early

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.shutdown()
        self.server_close()
