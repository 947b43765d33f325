"""A headless Chromium for tests: its pages, what they say on the console, and pictures of them."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def find_chromium():
    """The program and the names that were looked for; CHROMIUM names the browser if it is not on the path."""
    names = [os.environ["CHROMIUM"]] if "CHROMIUM" in os.environ else ["chromium", "chromium-browser", "google-chrome"]
    return next(filter(None, map(shutil.which, names)), None), names


class Browser:
    """A headless Chromium, spoken to over two pipes: messages are JSON, each ended by a zero byte."""

    def __init__(self, program, folder, deadline):
        self.deadline, self.buffer, self.number, self.session = deadline, b"", 0, None
        self.events = []  # what it said unasked
        inner_in, self.outgoing = os.pipe()
        self.incoming, inner_out = os.pipe()
        # Out of the way, since the browser wants its ends at 3 and 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (inner_in, inner_out)]

        def place_ends():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.log = open(os.path.join(folder, "log"), "w+", errors="replace")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
             "--window-size=1600,1000", "--user-data-dir=" + os.path.join(folder, "profile"), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False, preexec_fn=place_ends,
            start_new_session=True)
        for end in (inner_in, inner_out, *ends):
            os.close(end)

    def receive(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.incoming], [], [], max(0.0, self.deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.incoming, 1 << 20)
            if not chunk:
                raise EOFError("the browser has gone")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outgoing, json.dumps(message).encode() + b"\0")  # short: fits into the pipe
        while True:
            answer = self.receive()
            if "method" in answer:
                self.events.append(answer)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def evaluate(self, script, **more):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, **more)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "a script failed"))
        return answer["result"]

    def wait_for(self, script, what, **more):
        """Evaluates until the result is not null."""
        while time.monotonic() < self.deadline:
            result = self.evaluate(script, **more)
            if result.get("subtype") != "null":
                return result
            time.sleep(0.2)
        raise TimeoutError(f"no {what} in time")

    def open(self, url):
        """The first tab, on this page."""
        tabs = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=tabs[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable")
        self.call("Page.navigate", url=url)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session: the helpers go with it
        except ProcessLookupError:
            pass
        self.process.wait(timeout=30)
        for end in (self.incoming, self.outgoing):
            os.close(end)
        self.log.close()


def in_browser(prepare, work, timeout_s):
    """An exit status: that of `work`, called with a browser and with what `prepare` made in a folder; 0 where there is no Chromium, which
    is said; 1 where the browser fails."""
    program, names = find_chromium()
    if program is None:
        print("skipped: there is no Chromium (" + ", ".join(names) + ")")
        return 0
    with tempfile.TemporaryDirectory(prefix="stowage-chromium-", ignore_cleanup_errors=True) as folder:
        prepared = prepare(folder)
        browser = Browser(program, folder, time.monotonic() + timeout_s)
        try:
            return work(browser, prepared)
        except (OSError, EOFError, RuntimeError) as error:
            browser.log.seek(0)
            print(f"{error}; the browser's last words:\n{browser.log.read()[-600:]}", file=sys.stderr)
            return 1
        finally:
            browser.close()
