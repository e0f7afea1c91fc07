"""The tables of docs/cost_model.md that compare single collectives with published times; tools/prediction_tables writes them.

The formulas are computed here once more, from the same descriptions of machines; tests/plan/measured_collectives_test.cpp holds the program's to the same times."""
import csv
import pathlib
import tomllib

import published_tables

SOURCE = pathlib.Path(__file__).resolve().parent.parent
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
