"""Runs the steps of a peer on the commands of bench/step/trainer.cpp."""
import sys
import time


def say(*words):
    print("@", *words, flush=True)


def serve(step, lines=sys.stdin, prints=True, loss_of=float, memory=None, profile=None):
    """Runs a step, prints "ready", and then runs as many steps as each line asks for.

    `loss_of` converts what a step returns to a number; the measured times do not include it. `memory` answers the bytes
    taken so far on a GPU; `profile` writes the trace of a step to a file.
    """
    loss = loss_of(step())
    if prints:
        say("ready", time.time(), "loss", f"{loss:.5f}")
    for line in lines:
        words = line.split()
        if words == ["quit"]:
            return
        if words[0] == "profile":
            profile(step, words[1])
            say("profiled")
            continue
        milliseconds = []
        for _ in range(int(words[1])):
            began = time.perf_counter()
            result = step()
            milliseconds.append(1e3 * (time.perf_counter() - began))
        loss = loss_of(result)
        if prints:
            taken = ["memory", memory()] if memory else []
            say("ms", *(f"{t:.3f}" for t in milliseconds), "loss", f"{loss:.5f}", *taken)
