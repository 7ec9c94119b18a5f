"""Drives Debian's headless Chromium for tests, by the W3C WebDriver protocol (https://www.w3.org/TR/webdriver2/)."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cli_test import wrong

PATIENCE = 60  # timeout in seconds; only a hang reaches it
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's key of an element reference
TAB, ENTER = "\ue004", "\ue007"


def require_browser():
    """Exits with 77 unless chromium and chromedriver are installed."""
    for name in ("chromium", "chromedriver"):
        if not shutil.which(name):
            print(f"skipped: {name} is not installed; Debian's packages are chromium and chromium-driver")
            sys.exit(77)


class browser:
    """One page. Use it in `with`."""

    def __init__(self, folder):
        require_browser()
        self.out = folder / "chromedriver.txt"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        environment = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}
        with open(self.out, "w") as out:
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=out, stderr=subprocess.STDOUT, env=environment)
        self.session = None
        try:
            self.at = f"http://127.0.0.1:{self.port()}"
            words = ["--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
                     "--disable-background-networking", "--force-prefers-reduced-motion", f"--user-data-dir={folder / 'profile'}",
                     *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                      "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": words}}
            made = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self.session = made["sessionId"]
        except BaseException:
            self.__exit__()
            raise

    def port(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.driver.poll() is None:
            if found := re.search(r"started successfully on port (\d+)", self.out.read_text()):
                return int(found[1])
            time.sleep(0.05)
        raise wrong(f"chromedriver does not start:\n{self.out.read_text()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.ask("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=PATIENCE)

    def ask(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.at + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as failure:
            told = json.load(failure)["value"]
            raise wrong(f"{method} {path}: {told.get('error')}: {told.get('message')}") from None

    def do(self, path, body=None, method="POST"):
        return self.ask(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.do("/url", {"url": url})

    def run(self, script, *arguments):
        """Runs JavaScript such as "return 1 + arguments[0]", and returns its result."""
        return self.do("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, name):
        """All text of an element, hidden text too; empty if the element does not exist."""
        return self.run("return document.getElementById(arguments[0])?.textContent ?? ''", name)

    def until(self, what, script, *arguments):
        """Repeats a script until its result is true, and returns the result."""
        end = time.monotonic() + PATIENCE
        while True:
            if found := self.run(script, *arguments):
                return found
            if time.monotonic() > end:
                raise wrong(f"not within {PATIENCE} s: {what}\n{self.shown()}")
            time.sleep(0.1)

    def until_text(self, name, *parts):
        script = "const t = document.getElementById(arguments[0])?.textContent ?? ''; " \
                 "return arguments[1].every((x) => t.includes(x)) && t"
        return self.until(f"'{name}' says {parts}", script, name, list(parts))

    def shown(self):
        """The page as text, and the messages of the browser's console."""
        return self.run("return document.body.innerText") + "\n--- console\n" + "\n".join(self.console())

    def console(self):
        return [f"{x['level']}: {x['message']}" for x in self.do("/se/log", {"type": "browser"})]

    def require_clean_console(self):
        """Fails on script errors and violations of the Content-Security-Policy. Lost requests are not errors."""
        bad = [x for x in self.console() if x.startswith("SEVERE") and "Failed to load resource" not in x
               and "net::ERR_" not in x or "Content Security Policy" in x]
        if bad:
            raise wrong("the browser's console has:\n" + "\n".join(bad))

    def elements(self, selector):
        """References to visible elements."""
        return self.run("return [...document.querySelectorAll(arguments[0])].filter((x) => x.checkVisibility())", selector)

    def name_of(self, element):
        """The accessible name, which a screen reader says."""
        return self.do(f"/element/{element[ELEMENT]}/computedlabel", method="GET")

    def press(self, key):
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.do("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def type(self, name, text):
        element = self.run("return document.getElementById(arguments[0])", name)
        self.do(f"/element/{element[ELEMENT]}/value", {"text": text})

    def click(self, name):
        self.run("document.getElementById(arguments[0]).click()", name)

    def devtools(self, command, **parameters):
        return self.do("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def show_at(self, width, scheme="light"):
        """Emulates a screen of this width with this colour scheme. Below 600 px it is a phone."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
