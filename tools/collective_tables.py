"""The tables of docs/cost_model.md that compare single collectives with published times; tools/prediction_tables writes them.

The formulas are computed here once more, from the same descriptions of machines; tests/plan/measured_collectives_test.cpp holds the program's to the same times."""
import csv
import pathlib
import tomllib

import published_tables

SOURCE = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
SECONDS = {"us": 1e-6, "ms": 1e-3}


def described(machine):
    """The tiers of a machine with rates in bytes a second and times in seconds, and its host's rate."""
    def number(text):
        value, unit = text.split()
        return float(value) * (1e9 if unit == "GB/s" else SECONDS[unit])
    toml = tomllib.loads((SOURCE / f"machines/{machine}.toml").read_text())
    tiers = [{**tier, **{key: number(tier[key]) for key in ("link_bandwidth", "latency", "message_time") if key in tier}} for tier in toml["tiers"]]
    host = toml.get("host", {}).get("staging_bandwidth")
    return tiers, host and number(host)


def cost_model_small_calls():
    """Gathers and sums of the same dies that are too small for their bytes to decide, beside a ring's steps and bytes."""
    with open(SOURCE / published_tables.DATA / "lumi_comm_ops.csv", newline="") as file:
        calls = list(csv.DictReader(file))
    tiers, host = described("lumi")
    step = next(tier["latency"] for tier in tiers if tier["name"] == "group")
    outside = next(tier["latency"] for tier in tiers if tier["name"] == "network") - step
    yield ["dies", "call", "ranks", "steps", "least", "predicted", "error", "median"]
    for call in calls:
        if call["op"] == "send" and call["msg_size_as_printed"] == "8.0 B":
            launch = float(call["min_ms"]) / 1e3
        number, unit = call["msg_size_as_printed"].split()
        gathers = call["op"] == "all_gather" and unit == "KB"
        if not gathers and not (call["op"] == "all_reduce" and number == "1.75"):
            continue
        ranks, rounds = int(call["dp"]), 1 if gathers else 2
        whole = float(number) * UNITS[unit] * (ranks if gathers else 1)
        groups = -(-int(call["gcds"]) // 992)
        steps = rounds * (ranks - 1)
        seconds_of_steps = rounds * ((ranks - 1) * step + (groups if groups > 1 else 0) * outside)
        predicted = launch + seconds_of_steps + rounds * whole * (ranks - 1) / ranks / (host / 8)
        least = float(call["min_ms"]) / 1e3
        yield [f"{int(call['gcds']):,}", "gather" if gathers else "sum", str(ranks), str(steps), f"{1e3 * least:.2f} ms", f"{1e3 * predicted:.2f} ms",
               f"{100 * (predicted / least - 1):+.1f}%", f"{float(call['median_ms']):.2f} ms"]  # fmt: skip


def direct_exchange(tiers, ranks, size, host=None):
    """Seconds of an all-to-all among the first ranks of the machine, as docs/cost_model.md has them."""
    node = next(tier["devices"] for tier in tiers if tier["name"] == "node")
    longest = messages = last = 0
    members, inside = 1, 1
    for tier in tiers:
        together, shared = min(ranks, tier["devices"]), tier.get("devices_per_link", 1)
        time = tier.get("message_time", tier["latency"])
        messages += (together - members) * time
        if together > members:
            last = tier["latency"] - time
            leaves = tier["devices"] > node
            out = members * ((ranks if leaves else together) - members) * size / ranks
            rate = min(tier["link_bandwidth"], host / node * shared) if leaves and host and ranks > node else tier["link_bandwidth"]
            links = min(inside / shared, members * -(-min(inside, ranks) // members) * max(1, 1 / shared))
            crowded = ranks > tier.get("direct_ranks", ranks)
            longest = max(longest, out * -(-min(inside, ranks) // members) / (links * rate) / (tier["direct_share"] if crowded else 1))
        members, inside = together, tier["devices"]
    return longest + messages + last


def cost_model_all_to_alls():
    """All-to-alls that others timed, by the rates of links, and through the host's memory."""
    with open(SOURCE / published_tables.DATA / "all_to_all.csv", newline="") as file:
        calls = list(csv.DictReader(file))
    yield ["call", "machine", "ranks", "bytes of a rank", "measured", "data directly", "error", "through the host"]
    for call in calls:
        tiers, host = described(call["machine"])
        ranks, size, measured = int(call["ranks"]), float(call["tensor_bytes"]), float(call["measured_ms"]) / 1e3
        predicted = direct_exchange(tiers, ranks, size)
        staged = direct_exchange(tiers, ranks, size, host) if host and ranks > 8 else None
        bound = "more than " if call["bound"] else ""
        yield [call["id"], call["machine"], f"{ranks:,}", f"{size / 1e6:,.1f} MB", f"{bound}{1e3 * measured:.3g} ms", f"{1e3 * predicted:.3g} ms",
               f"{100 * (predicted / measured - 1):+.1f}%", f"{1e3 * staged:.3g} ms" if staged else ""]  # fmt: skip
