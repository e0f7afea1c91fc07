"""Three levels of sharding beside ZeRO++'s setting over the rate of a link, where calls overlap computation and where nothing does."""
import re

from planned import Planned, rate_at
from slow_link import ROOT
from comparison import quartiles, spread, table

PUBLISHED = 1.71  # arXiv 2501.04266
MICRO_BATCHES = 4
TYPES = ["layout.gather_type=int8", "layout.update_type=int8", "layout.reduce_type=int4"]
SHARDINGS = {"ZeRO++'s setting": "node", "three levels": "three_level"}
# Whether the ranks wait for each call at once, and further settings.
WAYS = {"all that can overlaps": (False, []), "nothing overlaps": (True, ["layout.prefetch=0"])}


def program_that_waits(folder):
    """The description of terrace as a program whose calls overlap nothing."""
    text = (ROOT / "machines/software/terrace.toml").read_text()
    for key in ("reduces_while_computing", "gathers_while_computing"):
        text, count = re.subn(f"(?m)^{key} = true", f"{key} = false", text)
        assert count == 1, key
    path = folder / "waiting.toml"
    path.write_text(text)
    return path


def overlap_text(job, options, say):
    settings = {}
    for way, (waits, further) in WAYS.items():
        for name, sharding in SHARDINGS.items():
            settings[way, name] = [f"layout.sharding={sharding}", *TYPES, *further]
            job.add(f"{way}: {name}", settings[way, name], options.micro_batch, MICRO_BATCHES, waits=waits)
    ratios, seconds = {}, {}
    for megabits in options.rates:
        job.limit(megabits)
        times = {row: [] for row in settings}
        for _ in range(options.sweep_rounds):
            for way, name in settings:
                times[way, name].append(job.steps(f"{way}: {name}", options.sweep_steps).seconds)
        for way in WAYS:
            pair = [times[way, name] for name in SHARDINGS]
            ratios[way, megabits] = quartiles([other / own for other, own in zip(*pair)])
            seconds[way, megabits] = [quartiles(one)[1] for one in pair]
        say(f"{megabits} Mbit/s: {options.sweep_rounds} rounds")
    job.limit(0)
    lines, found = [], []
    for way, (waits, _) in WAYS.items():
        planned = Planned([*options.settings, f"train.micro_batch={options.micro_batch}", f"train.global_batch={4 * options.micro_batch * MICRO_BATCHES}"],
                          options.folder, options.description, program_that_waits(options.folder) if waits else "terrace")  # fmt: skip

        def predicted(megabits, planned=planned, way=way):
            other, own = (planned.seconds(settings[way, name], megabits) for name in SHARDINGS)
            return other / own

        lines += [[way, str(megabits), *(f"{1e3 * one:.0f}" for one in seconds[way, megabits]), spread(*ratios[way, megabits]), f"{predicted(megabits):.2f}"]
                  for megabits in options.rates]  # fmt: skip
        measured = rate_at(PUBLISHED, [(rate, ratios[way, rate][1]) for rate in options.rates])
        by_plan = rate_at(PUBLISHED, [(rate, predicted(rate)) for rate in planned.fine(options.rates, 2 if options.quick else 1.1)])
        said = ["at no rate" if rate is None else f"at {rate:.0f} Mbit/s" for rate in (measured, by_plan)]
        found.append(f"- {way}: {PUBLISHED} times {said[0]} as measured, {said[1]} as predicted.")
    headings = ["", "link, Mbit/s", *(f"{name}, ms" for name in SHARDINGS), "ratio", "predicted"]
    return (f"# With and without overlap\n\n{MICRO_BATCHES} micro-batches of {options.micro_batch} sequences\n\n{table(headings, lines)}\n"
            + "\n".join(found) + f"\n\nThe description of the machine, with a free link:\n\n```toml\n{options.description}```\n")  # fmt: skip
