"""Runs under mpirun in which rank 1 hangs, dies, ends or disagrees: all others end soon, with the reason and code 5."""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

MPIRUN, PROGRAM = sys.argv[1], sys.argv[2]
CALL = "all_reduce(data), reduce gradients, segment 7, backward, call 2"
# Keeps mpirun from seeing that a rank was killed, so that the others have to find out and to end by themselves.
TELL_EXIT_CODE = ("sh", "-c", 'trap "" TERM; "$@"; echo "ended with code $?" >&2', "sh")


class Run:
    def __init__(self, way, alone):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            command = [MPIRUN, "-n", "3", *(TELL_EXIT_CODE if alone else ()), PROGRAM, way, folder]
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            self.seconds = time.monotonic() - began
            self.code, self.output = run.returncode, run.stdout
            self.flights = {path.name: json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()}


WAYS = [("computes", False), ("is stopped", False), ("dies", False), ("dies", True), ("dies while others compute", False),
        ("aborts", False), ("throws", False), ("ends", False), ("disagrees", False), ("receives", False),
        ("never connects", False), ("asks for reports", False), ("computes unchecked", False), ("is stopped unchecked", False),
        ("is waited for by one that is waited for", False), ("is waited for by one that is waited for unchecked", False),
        ("throws with a call under way", False), ("throws with a call under way unchecked", False), ("takes long", False),
        ("takes long and dies", True), ("takes long and is stopped", False), ("sends too late", False),
        ("sends too late unchecked", False), ("dies unchecked", True), ("ends unchecked", False), ("disagrees unchecked", False)]


def run_way(way):
    """On a busy machine rank 1 may hear of the failure before it sends; then the message is not late."""
    for _ in range(5):
        run = Run(*way)
        if not way[0].startswith("sends too late") or "rank 1 has sent" in run.output:
            break
    return run


# They mostly wait, and those that have the time-out of a second need a core now and then.
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    RUNS = dict(zip(WAYS, pool.map(run_way, WAYS)))


class Failures(unittest.TestCase):
    def check(self, way, *words, alone=False, code=5):
        run = RUNS[way, alone]
        for text in words:
            self.assertIn(text, run.output)
        if code is not None:
            self.assertEqual(run.code, code, run.output)
        self.assertLess(run.seconds, 20, run.output)
        return run

    def test_a_time_out_says_who_is_where(self):
        run = self.check("computes", f"waits in {CALL}; rank 1 never entered it; its last call is "
                                     "barrier(data), start, call 1, done ", "error: waited 1 s: rank ")
        for rank in range(3):
            calls = run.flights[f"flight_rank_00{rank}.json"]
            self.assertEqual([call["call"] for call in calls], ["barrier"] if rank == 1 else ["barrier", "all_reduce"])
            self.assertEqual(calls[-1]["state"], "done" if rank == 1 else "entered")

    def test_a_rank_that_hangs_does_not_answer(self):
        self.check("is stopped", "waited 1 s: rank ", f"waits in {CALL}; rank 1 does not answer")

    def test_a_rank_waits_for_a_message_that_nobody_sends(self):
        self.check("receives", "waited 1 s", "receive(data) from rank 2, activations, call 1")

    def test_one_rank_is_asked_for_a_report_and_all_write_theirs_and_go_on(self):
        run = self.check("asks for reports", "rank 0: its last call is barrier(data), start, call 1",
                         "rank 1: its last call", "rank 2: its last call", code=0)
        for rank in range(3):
            self.assertEqual([call["what"] for call in run.flights[f"flight_rank_00{rank}.json"]], ["start"])

    def test_a_rank_that_never_connects(self):
        run = self.check("never connects", "waits in barrier(data), connect, call 1; rank 1 never entered it; it has made no call")
        self.assertNotRegex(run.output, r"rank [02] never entered it")

    def test_a_killed_rank_is_named_before_mpirun_ends_the_others(self):
        # mpirun hands on what killed the rank.
        run = self.check("dies", f"has died; the run can be continued from its newest checkpoint with --resume auto; "
                                 f"rank 0 waits in {CALL}", f"rank 2 waits in {CALL}", code=137)
        self.assertRegex(run.output, r"error: rank 1 \(process \d+ on this machine\) has died")

    def test_the_others_find_out_by_themselves_and_end_with_code_5(self):
        run = self.check("dies", "has died", alone=True, code=None)
        self.assertEqual(run.output.count("ended with code 5"), 2, run.output)
        self.assertLess(run.seconds, 10)

    def test_a_killed_rank_is_named_while_the_others_compute(self):
        run = self.check("dies while others compute", code=137)
        self.assertRegex(run.output, r"rank 0: rank 1 \(process \d+ on this machine\) has died")

    def test_a_reason_that_a_rank_gives_reaches_all(self):
        self.check("aborts", f"error: the disk is full; rank 0 waits in {CALL}", f"error: the disk is full; rank 2 waits in {CALL}")

    def test_an_error_of_one_rank_ends_the_others(self):
        self.check("throws", "error: no bread", "error: rank 1 ended with an error; rank ", code=None)

    def test_an_error_with_a_call_under_way_is_what_the_others_read(self):
        for way in ("throws with a call under way", "throws with a call under way unchecked"):
            run = self.check(way, "error: no bread", "error: rank 1 failed: no bread; rank 0 waits in", code=None)
            self.assertNotIn("waited", run.output)

    def test_a_wait_without_a_limit_is_in_the_log_and_goes_on(self):
        run = self.check("takes long", "rank 0 goes on", "rank 1 goes on", "rank 2 goes on",
                         "rank 0 waits in barrier(data), save, call 1; rank 1 never entered it", code=0)
        self.assertRegex(run.output, "still waiting after [12] s: rank 0 waits")
        self.assertNotRegex(run.output, "still waiting after .*: rank 2 waits")

    def test_a_rank_that_dies_ends_a_wait_without_a_limit(self):
        run = self.check("takes long and dies", "has died", alone=True, code=None)
        self.assertEqual(run.output.count("ended with code 5"), 2, run.output)

    def test_a_rank_that_does_not_answer_ends_a_wait_without_a_limit(self):
        self.check("takes long and is stopped", "rank 1 has not answered for 1 s: rank ")

    def test_a_message_after_a_failure_finds_no_memory_of_the_callers(self):
        for way in ("sends too late", "sends too late unchecked"):
            self.check(way, "rank 1 has sent", "the buffer is unchanged; the owner lives", "waited 1 s", code=None)

    def test_a_rank_that_ends_early(self):
        self.check("ends", "rank 1 has ended: rank ", "rank 1 never entered it; it has ended")

    def test_calls_that_differ(self):
        self.check("disagrees", f"ranks disagree on a call: rank 0 makes {CALL} of 8 fp32, rank 1 makes {CALL} of 9 fp32")

    def test_ranks_that_wait_are_followed_to_the_one_that_does_not(self):
        for way in ("is waited for by one that is waited for", "is waited for by one that is waited for unchecked"):
            self.check(way, "rank 0 waits in all_reduce(left)", "; rank 2 never entered it; its last call is all_reduce(right)",
                       "; rank 2 waits for rank 1; it has made no call")

    # The ranks communicate in shared memory here.
    def test_calls_that_are_not_compared_first(self):
        self.check("computes unchecked", f"waits in {CALL}; rank 1 never entered it", "error: waited 1 s: rank ")
        self.check("is stopped unchecked", "waited 1 s: rank ", f"waits in {CALL}; rank 1 does not answer")
        self.check("ends unchecked", "rank 1 has ended: rank ", "rank 1 never entered it; it has ended")
        run = self.check("dies unchecked", "has died", alone=True, code=None)
        self.assertEqual(run.output.count("ended with code 5"), 2, run.output)

    def test_calls_that_differ_and_are_not_compared_first(self):
        run = self.check("disagrees unchecked", "ranks disagree on a call: rank ")
        self.assertRegex(run.output, r"of 8 fp32, rank 1 makes all_reduce\(data\), call 2 of 9 fp32|"
                                     r"rank 1 makes .* of 9 fp32, rank [02] makes all_reduce\(data\), call 2 of 8 fp32")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
