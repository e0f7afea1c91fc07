"""How a peer obeys the lines of bench/step/trainer.cpp."""
import sys
import time


def say(*words):
    print("@", *words, flush=True)


def serve(step, lines=sys.stdin, speaks=True, loss_of=float):
    """Runs a step, says "ready", and then as many steps as each line asks for.

    `loss_of` makes a number of what a step returns, outside of the times.
    """
    loss = loss_of(step())
    if speaks:
        say("ready", time.time(), "loss", f"{loss:.5f}")
    for line in lines:
        words = line.split()
        if words == ["quit"]:
            return
        milliseconds = []
        for _ in range(int(words[1])):
            began = time.perf_counter()
            result = step()
            milliseconds.append(1e3 * (time.perf_counter() - began))
        loss = loss_of(result)
        if speaks:
            say("ms", *(f"{t:.3f}" for t in milliseconds), "loss", f"{loss:.5f}")
