"""How much faster three levels of sharding are than ZeRO++'s setting, over the rate of a network card: curves for several kinds of overlap.

`tools/prediction_tables` makes the table and the picture of docs/low_bandwidth.md from it."""
import concurrent.futures
import math
import pathlib
import re
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CONFIG, DIES, FEWEST, PUBLISHED = "gpt-20b", 384, 64, 1.71
RATES = (21.25, 14, 9, 6, 4, 2.5, 1.25)  # GB/s of a network card; the first is that of machines/frontier.toml
SETTINGS = {"ZeRO-3": ("zero3", ("gather_type=same", "reduce_type=same", "update_type=same")), "ZeRO++": ("node", ()), "three levels": ("three_level", ())}
# Name of the curve, program, further settings, tokens of a micro-batch, micro-batches of a die.
CURVES = (
    ("everything overlaps (terrace)", "terrace", (), 2048, 1),
    ("sums of gradients wait (DeepSpeed's ZeRO++)", "zeropp", ("node_type=as others",), 2048, 4),
    ("nothing overlaps, by rails", "waiting", ("node_type=as others", "prefetch=0"), 2048, 4),
    ("nothing overlaps, in one hop", "waiting in one hop", ("node_type=as others", "prefetch=0"), 512, 1),
    ("nothing overlaps, in one hop", "waiting in one hop", ("node_type=as others", "prefetch=0"), 2048, 1),
    ("nothing overlaps, in one hop", "waiting in one hop", ("node_type=as others", "prefetch=0"), 2048, 4),
)


def changed(text, pattern, replacement):
    text, count = re.subn(pattern, replacement, text)
    assert count, f"no line has {pattern}"
    return text


class Curves:
    """Predicts with `plan(config, machine, *arguments, settings, software)` on descriptions that it writes into a folder."""

    def __init__(self, plan, folder):
        self.plan, self.folder = plan, pathlib.Path(folder)
        # Without the congestion of all-to-alls among more than 256 dies, which hides what the rate of a card does.
        self.machine = changed((SOURCE / "machines/frontier.toml").read_text(), r"(?m)^direct_(ranks|share) = .*\n", "")
        zeropp = (SOURCE / "machines/software/deepspeed-zeropp.toml").read_text()
        waiting = changed(zeropp, r"(?m)^gathers_while_computing = true", "gathers_while_computing = false")
        self.programs = {"terrace": "terrace", "zeropp": "deepspeed-zeropp", "waiting": self.write("waiting", waiting),
                         "waiting in one hop": self.write("one_hop", changed(waiting, r"(?m)^two_hop_routes = true", "two_hop_routes = false"))}

    def write(self, name, text):
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return str(path)

    def seconds(self, curve, setting, rate, dies=DIES):
        """Of a step, with as many sequences for each die on any number of dies."""
        _, program, further, tokens, micro_batches = curve
        machine = self.write(f"frontier_{rate:.4f}", changed(self.machine, '"21.25 GB/s"', f'"{rate:.4f} GB/s"'))
        sharding, types = SETTINGS[setting]
        settings = (f"layout.sharding={sharding}", *(f"layout.{one}" for one in (*further, *types)), f"model.sequence={tokens}",
                    f"train.global_batch={dies * micro_batches}")  # fmt: skip
        return self.plan(CONFIG, machine, "--devices", dies, settings=settings, software=self.programs[program])["step_seconds"]

    def ratio(self, curve, rate):
        return self.seconds(curve, "ZeRO++", rate) / self.seconds(curve, "three levels", rate)

    def points(self):
        """For each curve the ratios at RATES."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return [list(pool.map(lambda rate, curve=curve: self.ratio(curve, rate), RATES)) for curve in CURVES]

    def crossing(self, curve, ratios):
        """The rate at which the ratio is the published one, or None; between two rates by bisection."""
        for fast, slow, below, above in zip(RATES, RATES[1:], ratios, ratios[1:]):
            if not below < PUBLISHED <= above:
                continue
            for _ in range(4):
                middle = math.sqrt(fast * slow)
                fast, slow = (middle, slow) if self.ratio(curve, middle) < PUBLISHED else (fast, middle)
            return math.sqrt(fast * slow)
        return None


def made(plan):
    """The rows of the table, and the picture."""
    with tempfile.TemporaryDirectory() as folder:
        curves = Curves(plan, folder)
        points = curves.points()
        rows = [["overlap", "micro-batches and tokens of a die", "21.25 GB/s a card", "1.25 GB/s", f"{PUBLISHED} times at", "there ZeRO++ / ZeRO-3",
                 "there efficiency of three levels on 384 dies"]]  # fmt: skip
        for curve, ratios in zip(CURVES, points):
            rate = curves.crossing(curve, ratios)
            cells = ["not down to 1.25 GB/s", "", ""]
            if rate:
                gain = curves.seconds(curve, "ZeRO-3", rate) / curves.seconds(curve, "ZeRO++", rate)
                efficiency = curves.seconds(curve, "three levels", rate, FEWEST) / curves.seconds(curve, "three levels", rate)
                cells = [f"{rate:.1f} GB/s", f"{gain:.2f}", f"{efficiency:.2f}"]
            rows.append([curve[0], f"{curve[4]} of {curve[3]:,}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}", *cells])
        return rows, picture(points)


COLOURS = ("#0072b2", "#009e73", "#e69f00", "#cc79a7", "#d55e00", "#56b4e9")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 430, 60, 20, 20, 150


def picture(points):
    """The curves as an SVG: rates on a logarithmic axis from fast to slow, and the published ratio as a line."""
    most = max(PUBLISHED, *(max(ratios) for ratios in points)) * 1.05
    least = 0.5

    def x(rate):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(RATES[0] / rate) / math.log(RATES[0] / RATES[-1])

    def y(ratio):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (ratio - least) / (most - least)

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#333333">',
             "<title>Step of ZeRO++'s setting over that of three levels</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333333"/>']  # fmt: skip
    for ratio in (one / 2 for one in range(1, math.floor(2 * most) + 1)):
        lines.append(f'<text x="{LEFT - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>')
        lines.append(f'<path d="M{LEFT} {y(ratio):.1f}H{right}" stroke="#dddddd"/>')
    for rate in RATES:
        lines.append(f'<text x="{x(rate):.1f}" y="{bottom + 18}" text-anchor="middle">{rate:g}</text>')
    lines.append(f'<text x="{(LEFT + right) / 2:.1f}" y="{bottom + 36}" text-anchor="middle">GB/s of a network card</text>')
    lines.append(f'<path d="M{LEFT} {y(PUBLISHED):.1f}H{right}" stroke="#333333" stroke-dasharray="5 4"/>')
    lines.append(f'<text x="{LEFT + 8}" y="{y(PUBLISHED) - 5:.1f}">published: {PUBLISHED}</text>')
    for number, (curve, ratios) in enumerate(zip(CURVES, points)):
        path = "".join(f"{'L' if i else 'M'}{x(rate):.1f} {y(ratio):.1f}" for i, (rate, ratio) in enumerate(zip(RATES, ratios)))
        lines.append(f'<path d="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="2"/>')
        top = bottom + 56 + 16 * number
        lines.append(f'<path d="M{LEFT} {top - 4}h24" stroke="{COLOURS[number]}" stroke-width="2"/>')
        micro_batches = "micro-batch" if curve[4] == 1 else "micro-batches"
        lines.append(f'<text x="{LEFT + 32}" y="{top}">{curve[0]}; {curve[4]} {micro_batches} of {curve[3]:,} tokens</text>')
    return "\n".join([*lines, "</svg>", ""])
