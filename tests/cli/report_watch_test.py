"""Asks the server of terrace report --watch for its page: what it says, how it changes, and what it refuses."""
import http.client
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
from commands_test import TERRACE, CommandTest, terrace  # noqa: E402
from report_runs import write_run  # noqa: E402


class Watching(CommandTest):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def serve(self, *arguments):
        self.said = open(self.folder / "said.txt", "w")
        self.addCleanup(self.said.close)
        server = subprocess.Popen([TERRACE, "report", *map(str, arguments), "--watch"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=self.said, text=True)
        self.addCleanup(server.wait)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        address = urllib.parse.urlparse(server.stdout.readline().strip())
        self.assertEqual((address.scheme, address.hostname), ("http", "127.0.0.1"))
        self.port = address.port

    def ask(self, method="GET", path="/", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response, response.read().decode()

    def test_the_page_is_that_of_the_finished_report_and_follows_the_run(self):
        run = write_run(self.folder / "a")
        self.serve("a")
        response, page = self.ask()
        self.assertEqual((response.status, response.getheader("Refresh")), (200, "5"))
        self.expect(0, terrace("report", "a", "--output", "whole.html", folder=self.folder))
        of_page = lambda text: re.search(r'id="data">(.*?)</script', text, re.S)[1]
        data, whole = json.loads(of_page(page)), json.loads(of_page((self.folder / "whole.html").read_text()))
        self.assertEqual(data["runs"][0] | {"state": None}, whole["runs"][0])
        last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if '"loss"' in line][-1]
        with open(run / "metrics.jsonl", "a") as file:
            file.write(json.dumps(last | {"step": last["step"] + 1, "loss": 0.015625}) + "\n")
        self.assertIn("0.015625", self.ask()[1])
        self.assertFalse((run / "report.html").exists(), "nothing is written")

    def test_the_page_has_the_state_of_the_run(self):
        run = write_run(self.folder / "a")
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(facts | {"steps": 250}))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        now = time.time()
        lines = [line | {"time": now - 40 + min(0, line["step"] - 200)} for line in lines]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.serve("a")
        ask = lambda: json.loads(re.search(r'id="data">(.*?)</script', self.ask()[1], re.S)[1])["runs"][0]["state"]
        state = ask()
        self.assertEqual((state["state"], state["step"], state["steps"]), ("running", 200, 250))
        step_seconds = statistics.median_high([line["step_seconds"] for line in lines if "step_seconds" in line][-20:])
        self.assertAlmostEqual(state["seconds_left"], 50 * step_seconds)
        self.assertAlmostEqual(state["seconds_since_step"], 40, delta=20)
        own = json.loads(self.expect(0, terrace("status", "a", "--json", folder=self.folder)).stdout)["runs"][0]
        self.assertEqual({key: own[key] for key in ("state", "step", "steps")}, {key: state[key] for key in ("state", "step", "steps")})

    def test_a_run_that_has_not_begun_is_waited_for(self):
        self.serve("<later>")
        response, text = self.ask()
        self.assertEqual((response.status, response.getheader("Refresh")), (503, "5"))
        self.assertEqual(response.getheader("Content-Type"), "text/html; charset=utf-8")
        for words in ("<h1>Waiting for a run</h1>", "&lt;later>", "asks again every 5 seconds", "give the run's folder"):
            self.assertIn(words, text)
        # The warning comes before the first answer.
        self.assertRegex((self.folder / "said.txt").read_text(), "the page waits for a run: .*<later>")
        write_run(self.folder / "<later>")
        self.assertEqual(self.ask()[0].status, 200)

    def test_runs_are_named_by_the_key_that_differs_and_do_not_wait_for_those_that_have_not_begun(self):
        for name, rate in (("a", 0.001), ("b", 0.002)):
            (write_run(self.folder / name) / "resolved.toml").write_text(f"[optimizer]\nlearning_rate = {rate}\n")
        self.serve("a", "later", "b")
        response, page = self.ask()
        self.assertEqual(response.status, 200)
        data = json.loads(re.search(r'id="data">(.*?)</script', page, re.S)[1])
        self.assertEqual([run["name"] for run in data["runs"]],
                         ["a (optimizer.learning_rate = 0.001)", "b (optimizer.learning_rate = 0.002)"])  # fmt: skip
        self.assertIn("later", data["runs"][0]["notes"][0])
        self.assertRegex((self.folder / "said.txt").read_text(), "the page waits for a run: .*later")
        failed = terrace("report", "a", "b", "--by", "train.step", folder=self.folder)
        self.expect(2, failed)
        self.assertIn("these keys differ: optimizer.learning_rate", failed.stderr)

    def test_only_the_page_and_only_this_machine(self):
        run = write_run(self.folder / "a")
        self.serve("a")
        for path in ("/metrics.jsonl", "/../a/run.json", "/a", "/report.html"):
            self.assertEqual(self.ask(path=path)[0].status, 404, path)
        for method in ("POST", "PUT", "DELETE"):
            self.assertIn(self.ask(method)[0].status, (400, 404), method)
        self.assertEqual(self.ask(Host="other.example:80")[0].status, 403)
        self.assertEqual(self.ask(Host=f"localhost:{self.port}")[0].status, 200)
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        for address in addresses - {"127.0.0.1", "127.0.1.1"}:
            with self.assertRaises(OSError, msg=address):
                socket.create_connection((address, self.port), timeout=5)
        self.assertTrue(run.exists())

    def test_a_port_that_is_taken_is_refused(self):
        write_run(self.folder / "a")
        self.serve("a")
        result = subprocess.run([TERRACE, "report", "a", "--watch", "--port", str(self.port)], cwd=self.folder, capture_output=True,
                                text=True, timeout=20)
        self.expect(2, result, f"--port {self.port} is taken")
        self.expect(2, terrace("report", "a", "--watch", "--json", folder=self.folder))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], exit=True)
