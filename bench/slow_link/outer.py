"""Copies that train by themselves for many steps beside training that sums gradients in every step, over the rate of a link."""
from planned import Planned
from slow_link import PER_NODE, crosses, milliseconds
from comparison import quartiles, spread, table

MICRO_BATCHES = 4
NODE = f"layout.sharding=hybrid layout.shard_group={PER_NODE}"  # a node has the optimizer states once
EVERY_STEP = "gradients in every step, bf16"
THREE = "three levels, int8 and int4 between nodes"
BAR = 0.05  # of a run's time
HEADINGS = ["link, Mbit/s", "row", "step, ms", "in transfers", "these calls alone", "predicted", "in votes", "kB of a rank in a round", "predicted", "MB out of a node in a round",
            f"{EVERY_STEP} / row", "predicted"]  # fmt: skip


def outer_rows(every, three_levels):
    """Settings by name."""
    copies = f"{NODE} layout.outer_every={every} train.steps={10000 * every}"
    return {EVERY_STEP: f"{NODE} layout.reduce_type=bf16", THREE: three_levels,
            f"every {every} steps, fp32": copies, f"every {every} steps, int8": f"{copies} layout.outer_type=int8"}  # fmt: skip


def percent(values):
    low, middle, high = (100 * value for value in quartiles(values))
    return f"{middle:.1f}% ({low:.1f} to {high:.1f})"


class Predicted:
    """What a plan says of the groups that cross the link."""

    def __init__(self, plan, names):
        sent = plan["stages"][0]["sent_bytes"]
        self.seconds = plan["step_seconds"]
        self.share = sum(plan["exposed_seconds"].get(name, 0) for name in names) / self.seconds
        self.bytes = sum(sent.get(name, 0) for name in names)


def outer_text(job, options, say):
    every = options.outer_every
    rows = {name: settings.split() for name, settings in outer_rows(every, options.rows[THREE]).items()}
    for name, settings in rows.items():
        job.add(f"outer {name}", settings, options.micro_batch, MICRO_BATCHES)
    planned = Planned([*options.settings, f"train.micro_batch={options.micro_batch}", f"train.global_batch={4 * options.micro_batch * MICRO_BATCHES}"],
                      options.folder, options.description)  # fmt: skip

    def measured_kb(name, one):
        measured = every - 1 if f"layout.outer_every={every}" in rows[name] else every
        return 1e-3 * measured * sum(group["bytes"] for group in one.groups.values() if crosses(group))

    lines, reached = [], []
    for megabits in options.rates:
        job.limit(megabits)
        steps = {name: [] for name in rows}
        for number in range(options.sweep_rounds):
            for name in rows:
                # After the first step of a trainer `every` steps end one after a multiple of it: the outer update is measured, and the first step is not.
                is_outer = f"layout.outer_every={every}" in rows[name]
                one = job.steps(f"outer {name}", every - 1 if is_outer else options.sweep_steps)
                one.alone = job.alone(f"outer {name}", one.groups)
                steps[name].append(one)
            say(f"{megabits} Mbit/s: round {number + 1} of {options.sweep_rounds}")
        names = {name: {group for group, what in some[0].groups.items() if crosses(what)} for name, some in steps.items()}
        by_plan = {name: Predicted(planned.plan(settings, megabits), names[name]) for name, settings in rows.items()}
        for name, some in steps.items():
            share = [one.waited / one.mean_seconds for one in some]
            lines.append([
                str(megabits), name, milliseconds([one.mean_seconds for one in some]),
                percent(share), percent([one.alone / one.mean_seconds for one in some]), f"{100 * by_plan[name].share:.1f}%", percent([one.votes / one.mean_seconds for one in some]),
                f"{measured_kb(name, some[0]):.0f}", f"{1e-3 * every * by_plan[name].bytes:.0f}",
                f"{1e-6 * every * quartiles([one.sent for one in some])[1]:.2f}",
                spread(*quartiles([a.mean_seconds / b.mean_seconds for a, b in zip(steps[EVERY_STEP], some)])),
                f"{by_plan[EVERY_STEP].seconds / by_plan[name].seconds:.2f}",
            ])  # fmt: skip
            if quartiles(share)[1] <= BAR:
                reached.append(f"{name} at {megabits} Mbit/s")
        say(table(HEADINGS, lines))
    job.limit(0)
    return (f"# Copies by themselves\n\n{MICRO_BATCHES} micro-batches of {options.micro_batch} sequences\n\n{table(HEADINGS, lines)}\n"
            f"At most {100 * BAR:.0f}% of the time in transfers: {', '.join(reached) or 'nowhere'}.\n\n"
            f"The description of the machine, with a free link:\n\n```toml\n{options.description}```\n")  # fmt: skip
