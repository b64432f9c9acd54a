"""A headless Chromium, driven over its debugging pipe: no driver, no socket, no package but the browser.

with Browser() as browser:
    browser.open(path); browser.value("document.title"); browser.move_to("svg rect")
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, limit=60):
        self.limit, self.last, self.left, self.events = limit, 0, b"", []
        self.home = tempfile.mkdtemp(prefix="k3bench-browser.")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        inherited = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, to_write)]
        command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--user-data-dir=" + self.home, "--remote-debugging-pipe", "--window-size=1280,900", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % tuple(inherited), "bash"] + command, pass_fds=inherited,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for fd in inherited + [to_read, to_write]:
            os.close(fd)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        for fd in (self.to_browser, self.from_browser):
            os.close(fd)
        shutil.rmtree(self.home, ignore_errors=True)

    # --- messages ---

    def receive(self, end):
        while b"\0" not in self.left:
            ready, _, _ = select.select([self.from_browser], [], [], max(end - time.monotonic(), 0))
            part = os.read(self.from_browser, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer")
            self.left += part
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.limit
        while True:
            answer = self.receive(end)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        end = time.monotonic() + self.limit
        while not any(event["method"] == method for event in self.events):
            self.events.append(self.receive(end))

    # --- pages ---

    def open(self, path):
        self.events = []
        self.call("Page.navigate", url="file://" + os.path.realpath(path))
        self.wait_for("Page.loadEventFired")
        self.value("new Promise(requestAnimationFrame)")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError("%s: %s" % (expression, result["exceptionDetails"]))
        return result["result"].get("value")

    def faults(self):
        """What a page without a fault does not cause; requests besides the page itself."""
        found = []
        for event in self.events:
            method, data = event["method"], event["params"]
            if method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening", "Runtime.consoleAPICalled"):
                found.append("%s: %s" % (method, json.dumps(data)[:300]))
            elif method == "Log.entryAdded":
                found.append("log: %s" % data["entry"]["text"])
            elif method == "Network.requestWillBeSent" and data.get("type") != "Document" and \
                    not data["request"]["url"].startswith("data:"):
                found.append("request: %s" % data["request"]["url"])
        return found

    def place_of(self, selector):
        """Middle of an element, in the window."""
        return self.value("(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'}); "
                          "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
                          % json.dumps(selector))

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def move_to(self, selector):
        self.move(*self.place_of(selector))

    def click(self, selector):
        x, y = self.place_of(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
