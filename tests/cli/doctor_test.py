"""Tests `terrace doctor` on this machine, on copies of other nodes' files, and under mpirun, where it names the odd rank."""
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402
from ranks_test import ENVIRONMENT  # noqa: E402

LAPTOP = pathlib.Path(__file__).resolve().parents[2] / "machines/laptop.toml"
# Rows that need a device or a network that no test machine is taken to have.
OF_FRONTIER = {"pairs", "rendezvous", "cache monitor", "code object", "caches", "node disk"}
PLAIN = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("NCCL_", "SLURM_", "FI_"))}


# Runs a command that is stopped for nine tenths of the time.
PAUSED = [sys.executable, "-c", """
import signal, subprocess, sys, time
command = subprocess.Popen(sys.argv[1:])
while command.poll() is None:
    for number, seconds in ((signal.SIGSTOP, 0.045), (signal.SIGCONT, 0.005)):
        command.send_signal(number)
        time.sleep(seconds)
sys.exit(command.returncode)
"""]


def write_workstation(root):
    """A machine with 16 cores, one interface and small limits."""
    for path, text in (
        ("proc/sys/kernel/hostname", "desk\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-15\n"),
        ("proc/self/limits", "Max open files            1024                 4096                 files\n"),
        ("proc/self/mountinfo", "22 1 0:21 / / rw - ext4 /dev/nvme0n1p2 rw\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


class OneProcess(CommandTest):
    def doctor(self, *arguments, **environment):
        return subprocess.run([TERRACE, "doctor", *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env=PLAIN | environment)  # fmt: skip

    def test_a_workstation_is_clean_and_its_rows_are_made_or_left_out_with_a_reason(self):
        result = self.expect(0, self.doctor("--root", write_workstation(self.scratch()), "--json"))
        said = json.loads(result.stdout)
        self.assertEqual((said["findings"], said["checks"], said["ranks"], said["nodes"]), ([], ["near cores"], 1, 1))
        self.assertEqual(len(said["not_applicable"]), 21)
        self.assertTrue(all(row["check"] and row["reason"] for row in said["not_applicable"]))

    def test_this_machine_gets_no_advice_for_devices_that_it_has_not(self):
        result = self.doctor("--folder", self.scratch(), "--json")
        said = json.loads(result.stdout)
        self.assertEqual(result.returncode, 1 if said["findings"] else 0)
        self.assertIn("run folder", said["checks"])
        if not any(name.startswith("hsn") for name in os.listdir("/sys/class/net")) and not os.path.exists("/sys/class/kfd"):
            self.assertEqual(OF_FRONTIER & set(said["checks"]), set())
        text = self.doctor().stdout
        self.assertRegex(text, r"(?m)^\d+ findings? in \d+ checks? of 1 rank on \d+ nodes?: ")

    def test_findings_exit_with_1_and_say_what_mends_them(self):
        root = write_workstation(self.scratch())
        result = self.expect(1, self.doctor("--root", root, NCCL_SOCKET_IFNAME="hsn0"), "error: 1 finding; standard output")
        self.assertIn("error: interfaces: NCCL_SOCKET_IFNAME names hsn0, and there are eth0\n", result.stdout)
        self.assertIn("  fix: export NCCL_SOCKET_IFNAME=eth0, or", result.stdout)
        said = json.loads(self.doctor("--root", root, "--json", NCCL_SOCKET_IFNAME="hsn0").stdout)
        self.assertEqual([set(finding) for finding in said["findings"]], [{"check", "severity", "found", "why", "fix"}])

    def test_one_rank_measures_itself_beside_a_description(self):
        fast = self.scratch() / "fast.toml"
        text = LAPTOP.read_text()
        fast.write_text(re.sub(r'(?m)^memory_bandwidth = ".*"', 'memory_bandwidth = "90 TB/s"', text))
        result = self.expect(1, self.doctor("--measure", "--machine", fast, "--json"))
        said = json.loads(result.stdout)
        self.assertLessEqual({"products", "copies"}, set(said["checks"]))
        found = {finding["check"]: finding["found"] for finding in said["findings"]}
        self.assertRegex(found["copies"], r"where the machine's description has 8\d(\.\d)? TiB/s")
        self.expect(2, self.doctor("--measure", "--machine", "frontire"), 'there is no machine "frontire"')
        self.expect(2, self.doctor("--machine", "frontier"), "--measure")

    def test_a_root_without_a_node_is_refused(self):
        self.expect(2, self.doctor("--root", self.scratch()), "has neither sys nor proc")

    def test_a_run_warns_at_its_start_unless_it_is_told_not_to(self):
        folder = self.scratch()
        prepare_corpus(folder)
        (folder / "run.toml").write_text(TINY)
        bad = {"NCCL_SOCKET_IFNAME": "nosuch0"}
        warned = self.expect(0, terrace("train", "run.toml", folder=folder, **bad), "doctor: interfaces: NCCL_SOCKET_IFNAME names nosuch0")
        self.assertEqual(warned.stderr.count("doctor: "), 1)
        silent = terrace("train", "run.toml", "--no-doctor", "--set", "checkpoint.folder=silent", folder=folder, **bad)
        self.assertNotIn("doctor: ", self.expect(0, silent).stderr)


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
class Launched(CommandTest):
    def launch(self, *ranks):
        """Launches one rank with each command line; NAME=VALUE in front of the program are of that rank's environment."""
        words = []
        for rank in ranks:
            words += [*([":"] if words else []), "-n", "1", *[str(word) for word in rank]]
        return subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *words], env=PLAIN, capture_output=True,
                              text=True, timeout=120)  # fmt: skip

    def doctor(self, *more, program=TERRACE, **environment):
        return ["env", *[f"{name}={value}" for name, value in environment.items()], program, "doctor", "--json", *more]

    def test_equal_ranks_are_compared_and_one_of_them_prints(self):
        for ranks in (2, 4):
            with self.subTest(ranks):
                said = json.loads(self.launch(*[self.doctor()] * ranks).stdout)
                self.assertEqual((said["ranks"], said["nodes"]), (ranks, 1))
                self.assertIn("versions", said["checks"])
                self.assertNotIn("versions", [finding["check"] for finding in said["findings"]])

    def test_the_rank_that_runs_another_program_is_named(self):
        other = self.scratch() / "terrace"
        shutil.copy(TERRACE, other)
        with open(other, "ab") as file:
            file.write(b"x")
        for ranks, odd in ((2, 1), (4, 2)):
            with self.subTest(ranks):
                lines = [self.doctor(program=other if rank == odd else TERRACE) for rank in range(ranks)]
                result = self.launch(*lines)
                self.expect(1, result, "standard output says what mends them")
                found = {finding["check"]: finding["found"] for finding in json.loads(result.stdout)["findings"]}
                self.assertRegex(found["versions"], rf"^rank {odd} on {platform.node()}: the program is {other.stat().st_size} bytes, ")
                self.assertEqual(result.stderr.count("standard output says"), 1)

    def test_the_rank_with_another_environment_is_named(self):
        lines = [self.doctor(), self.doctor(NCCL_SOCKET_IFNAME="nosuch0"), self.doctor(), self.doctor()]
        found = {finding["check"]: finding for finding in json.loads(self.launch(*lines).stdout)["findings"]}
        self.assertIn("rank 1 on ", found["interfaces"]["found"])
        self.assertIn("names nosuch0", found["interfaces"]["found"])

    def test_a_rank_that_is_slowed_on_purpose_is_named(self):
        for ranks, slow in ((2, 1), (2, 0)):
            with self.subTest(slow):
                lines = [[*(PAUSED if rank == slow else []), TERRACE, "doctor", "--json", "--measure", "--device", "cpu"] for rank in range(ranks)]
                result = self.launch(*lines)
                self.expect(1, result, "standard output says what mends them")
                found = {finding["check"]: finding["found"] for finding in json.loads(result.stdout)["findings"]}
                for check in ("products", "copies"):
                    self.assertRegex(found[check], rf"^rank {slow} on {platform.node()}: .* where half of them reach")

    def test_a_mistake_is_reported_once(self):
        result = self.launch(*[self.doctor("--root", self.scratch())] * 2)
        self.assertEqual((result.returncode, result.stderr.count("has neither sys nor proc")), (2, 1))


if __name__ == "__main__":
    unittest.main()
