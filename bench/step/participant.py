"""One program of the comparison: started once, idle between the steps it is asked for."""
import os
import queue
import subprocess
import tempfile
import threading
import time


class Failed(Exception):
    pass


def busy_seconds():
    """What all CPUs have spent on anything since boot."""
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def own_seconds(pid):
    return sum(int(x) for x in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:15]) / os.sysconf(
        "SC_CLK_TCK"
    )


class Participant:
    """`rounds` holds the milliseconds of each round's steps; `foreign` the share of the CPUs others had meanwhile;
    `processor` the processor milliseconds of each round's steps, all as long as each other."""

    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment = name, command, environment or {}
        self.rounds, self.foreign, self.processor, self.first_losses, self.last_loss = [], [], [], [], None
        self.first_step_seconds, self.peak_bytes, self.gpu_bytes = float("inf"), 0, 0

    def launch(self):
        self.log = tempfile.TemporaryFile("w+")
        environment = {**os.environ, **self.environment}
        self.program = subprocess.Popen(
            self.command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, timeout=600):
        began = time.time()
        self.launch()
        ready = self.answer("ready", timeout)
        self.first_losses.append(float(ready[2]))
        self.first_step_seconds = min(self.first_step_seconds, float(ready[0]) - began)

    def _read(self):
        for line in self.program.stdout:
            words = line.split()
            if words[:1] == ["@"]:
                self.lines.put(words[1:])
        self.lines.put(["end"])

    def answer(self, what, timeout):
        try:
            words = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise Failed(f"{self.name}: no answer in {timeout} s")
        if words[0] != what:
            self.log.seek(0)
            raise Failed(f"{self.name} ended: {self.log.read()[-2000:]}")
        return words[1:]

    def go(self, count, timeout=600):
        """Runs steps; gives the numbers printed, which for a trainer are milliseconds."""
        began, busy, own = time.time(), busy_seconds(), own_seconds(self.program.pid)
        self.program.stdin.write(f"go {count}\n")
        self.program.stdin.flush()
        words = self.answer("ms", timeout)
        seconds = time.time() - began
        own = own_seconds(self.program.pid) - own
        self.processor.append(count * [1e3 * own / count])
        others = busy_seconds() - busy - own
        self.foreign.append(max(0.0, others) / seconds / os.cpu_count())
        numbers = [float(x) for x in words[: words.index("loss")]]
        self.rounds.append(numbers)
        self.last_loss = float(words[words.index("loss") + 1])
        if "memory" in words:
            self.gpu_bytes = int(words[words.index("memory") + 1])
        status = open(f"/proc/{self.program.pid}/status").read()
        self.peak_bytes = 1024 * int(status.split("VmHWM:")[1].split()[0])
        return numbers

    def profile(self, path, timeout=600):
        """Writes the trace of one more step, in Chrome's format."""
        self.program.stdin.write(f"profile {path}\n")
        self.program.stdin.flush()
        self.answer("profiled", timeout)

    def stop(self):
        try:
            self.program.stdin.write("quit\n")
            self.program.stdin.close()
            self.program.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.program.kill()
            self.program.wait()
