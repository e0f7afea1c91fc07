"""Tests `terrace rehearse` of the built binary: options that mean nothing, what a killed rank leads to, and what a rank takes beside its tensors."""
import json
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, CommandTest, terrace  # noqa: E402

RUN = (SOURCE / "configs/frontier-22b.toml", "--machine", "frontier", "--devices", 64, "--set", "layout.tensor=2", "--set", "layout.pipeline=4",
       "--set", "layout.sharding=zero1", "--micro-batches", 2)  # fmt: skip


def rehearsed(*more):
    result = terrace("rehearse", *RUN, "--json", *more)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class Rehearse(CommandTest):
    def test_options_that_mean_nothing_are_refused_with_the_way_out(self):
        for words, said in (
            (("--slow-ranks", "3=0.2"), "add --timed"),
            (("--timed", "--slow-ranks", "64=0.2"), "a rank from 0 to 63"),
            (("--timed", "--slow-links", "3-3=2"), "two ranks from 0 to 63"),
            (("--timed", "--slow-links", "3=2"), "RANK-RANK=SHARE"),
            (("--slow-after", 3), "--slow-links"),
            (("--kill", "64@1"), "a rank from 0 to 63"),
            (("--kill", "3@3"), "a step from 1 to 2"),
            (("--kill", "3@2", "--timed"), "without --timed"),
            (("--steps", 0, "--timed"), "--steps 3"),
        ):
            self.expect(2, terrace("rehearse", *RUN, *words), said)

    def test_a_rank_that_is_killed_in_the_first_step_begins_anew(self):
        killed = rehearsed("--set", "model.layers=4", "--kill", "0@1", "--no-half", "--no-one-rank")["killed"]
        self.assertEqual((killed["rank"], killed["step"], killed["node"], killed["resumed_step"]), (0, 1, 0, 0))
        self.assertFalse(killed["from_memory"])
        self.assertTrue(killed["same_bits"])

    # The resident memory of a process that starts 64 ranks, without their first steps, for which the plan counts half a megabyte more. Two data-parallel ranks,
    # for which buffers have little padding.
    def test_a_rank_takes_what_the_plan_counts_beside_its_tensors(self):
        for layers in (16, 96):
            layout = ("--set", "layout.pipeline=16", "--set", f"model.layers={layers}")
            planned = terrace("plan", *RUN[:-2], *layout, "--json")
            beside = json.loads(planned.stdout)["rank_overhead_bytes"] - (512 << 10)
            start = rehearsed(*layout, "--steps", 0, "--no-half")["start"]
            ratio = start["memory_bytes"] / start["ranks"] / beside
            self.assertTrue(0.6 < ratio < 1.6, f"{layers} layers: {ratio}")


if __name__ == "__main__":
    unittest.main()
