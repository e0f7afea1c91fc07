"""Drives Chromium without a window, with nothing but Python's own library, and is the base of the tests of pages."""
import json
import os
import select
import subprocess
import unittest

MOST_SECONDS_OF_SILENCE = 60


class Browser:
    """Chromium without a window, spoken to in its DevTools protocol over two pipes."""

    def __init__(self, program, profile):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
                 "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        # The protocol has the numbers 3 and 4.
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", program, *flags],
                                        pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=os.environ | {"HOME": str(profile)})
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.session, self.unread, self.loaded, self.problems = 0, None, b"", False, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.unread:
            readable, _, _ = select.select([self.read_end], [], [], MOST_SECONDS_OF_SILENCE)
            chunk = os.read(self.read_end, 1 << 20) if readable else b""
            if not chunk:
                raise AssertionError("the browser ended or is silent")
            self.unread += chunk
        text, _, self.unread = self.unread.partition(b"\0")
        message = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.problems.append(message["params"])
        self.loaded = self.loaded or message.get("method") == "Page.loadEventFired"
        return message

    def open(self, path, width=1280, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.set_scheme(scheme)
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self.receive()

    def set_scheme(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression):
        """The value of a JavaScript expression, after the page has drawn what was asked for before."""
        wrapped = f"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(({expression})))))"
        result = self.call("Runtime.evaluate", expression=wrapped, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def mouse(self, kind, x, y, **parameters):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        os.close(self.read_end)
        os.close(self.write_end)


class PageTest(unittest.TestCase):
    """A test of pages in `folder` with a `browser`, which its setUpClass makes. A script's error or message fails it."""

    def open(self, name, width=1280, scheme="light"):
        self.browser.problems.clear()
        self.browser.open(self.folder / name, width, scheme)

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])

    def texts(self, selector):
        return self.browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def data(self, selector, *keys):
        """The data- attributes of the elements that the selector matches, as tuples."""
        keys = json.dumps(keys)
        return [tuple(one) for one in self.browser.value(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => {keys}.map((key) => one.dataset[key] ?? null))")]  # fmt: skip

    def scrolling(self):
        """The elements inside of the page that show only a part of what they hold: section, class and data-more."""
        return self.browser.value("""[...document.querySelectorAll("main, main *:not(svg *)")].filter((one) => {
            const style = getComputedStyle(one), hides = (overflow) => ["auto", "scroll", "hidden"].includes(overflow);
            return (hides(style.overflowX) && one.scrollWidth > one.clientWidth + 1) ||
                   (hides(style.overflowY) && one.scrollHeight > one.clientHeight + 1);
        }).map((one) => [one.closest("section")?.id ?? null, one.className, one.dataset.more ?? null])""")

    def box(self, selector):
        """Left, top, width and height in the window, into which the element is scrolled."""
        return self.browser.value(f"""((one) => {{ one.scrollIntoView({{block: "center"}}); const box = one.getBoundingClientRect();
            return [box.left, box.top, box.width, box.height]; }})(document.querySelector({json.dumps(selector)}))""")

    def tip(self):
        return self.browser.value('((tip) => (tip.hidden ? "" : tip.textContent))(document.getElementById("tip"))')

    def click(self, selector):
        self.browser.value(f"document.querySelector({json.dumps(selector)}).click()")

    def point_at(self, selector, across=0.5, down=0.5):
        """Moves the mouse there, in shares of the element's size, and gives the text that appears."""
        left, top, width, height = self.box(selector)
        self.browser.mouse("mouseMoved", left + across * width, top + down * height)
        return self.tip()
