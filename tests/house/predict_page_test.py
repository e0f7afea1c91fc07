"""Opens the page of terrace predict in a browser without a window: figures, parity, calibration, spread, largest errors, sorting, hover,
colours, widths. Exits with 77 where there is no Chromium."""
import csv
import json
import math
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cli"), str(pathlib.Path(__file__).resolve().parent)]
from browser import Browser, PageTest  # noqa: E402
from commands_test import terrace  # noqa: E402

CHROMIUM = shutil.which("chromium")
PHONE_WIDTH = 390

CONFIG = """[model]
family = "gnn"
conv = "schnet"
layers = 1
width = 8
radius = 4.0
radial = 8
[[model.outputs]]
name = "energy"
per_atom = true
[[model.outputs]]
name = "forces"
derivative_of = "energy"
[data]
train = ["pairs"]
[train]
global_batch = 16
micro_batch = 16
steps = 30
threads = 1
[optimizer]
learning_rate = 5e-3
[checkpoint]
folder = "run"
"""


def frame(length, has_labels=True):
    """Two or three atoms in a line, joined by springs."""
    symbols = ["C", "O"] if length < 1.2 else ["C", "H", "H"]
    ends = [0, length, -length][: len(symbols)]
    pull = -4 * (length - 1.1)
    forces = [0 if len(ends) == 3 else -pull, pull, -pull][: len(ends)]
    energy = 2 * (len(ends) - 1) * (length - 1.1) ** 2 - 3 * len(ends)
    header = f"energy={energy} Properties=species:S:1:pos:R:3:forces:R:3" if has_labels else "Properties=species:S:1:pos:R:3"
    rows = [f"{symbol} {x} 0 0 {f'{force} 0 0' if has_labels else ''}" for symbol, x, force in zip(symbols, ends, forces)]
    return "\n".join([str(len(symbols)), header, *rows]) + "\n"


class Page(PageTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        draw = random.Random(3)
        (cls.folder / "pairs.xyz").write_text("".join(frame(draw.uniform(0.9, 1.5)) for _ in range(400)))
        (cls.folder / "bare.xyz").write_text(frame(1.0, has_labels=False))
        (cls.folder / "run.toml").write_text(CONFIG)
        cls.call("data", "prepare", "pairs.xyz", "--kind", "graphs", "--output", "pairs", "--split", "0.5,0.1,0.4", "--units", "energy=eV")
        cls.call("ensemble", "run.toml", "--seeds", 2, "--ranks", 1, "--output", "two")
        cls.json = {"two": cls.predict("two", "--data", "pairs", "--page", "two.html", "--csv", "two.csv"),
                    "one": cls.predict("two/member_1", "--data", "pairs", "--page", "one.html"),
                    "many": cls.predict("two", "--data", "pairs.xyz", "--page", "many.html")}  # fmt: skip
        cls.predict("two", "--data", "bare.xyz", "--page", "bare.html")
        cls.browser = Browser(CHROMIUM, cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def call(cls, *arguments):
        result = terrace(*arguments, folder=cls.folder)
        assert result.returncode == 0, result.stderr
        return result.stdout

    @classmethod
    def predict(cls, *arguments):
        return json.loads(cls.call("predict", *arguments, "--json"))["outputs"]

    def section(self, output):
        return f'section[data-output="{output}"]'

    def rows(self, output):
        """The table of the largest errors, as an object for each row."""
        heads = self.data(f"{self.section(output)} th button", "sort")
        texts = self.texts(f"{self.section(output)} tbody td")
        return [dict(zip([key for key, in heads], texts[i : i + len(heads)])) for i in range(0, len(texts), len(heads))]

    def test_draws_in_both_schemes_and_fits_a_phone(self):
        for name in ("two", "one", "many", "bare"):
            for scheme in ("light", "dark"):
                for width in (1280, PHONE_WIDTH):
                    with self.subTest(name=name, scheme=scheme, width=width):
                        self.open(f"{name}.html", width, scheme)
                        self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.browser.problems, [])
                        self.assertEqual([where for where, _, more in self.scrolling() if more is None], [])

    def test_a_window_without_room_draws_without_a_message(self):
        for name in ("two", "one", "many"):
            for width in (1, 60, 130):
                self.open(f"{name}.html", width)
                self.assertEqual(self.browser.problems, [])
                sizes = self.browser.value("[...document.querySelectorAll('svg')].map((one) => Number(one.getAttribute('height')))")
                self.assertGreaterEqual(min(sizes), 0)

    def test_the_file_asks_for_nothing_from_a_network(self):
        text = (self.folder / "two.html").read_text()
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r'(src|href)="(?!data:)')

    def test_the_table_has_the_figures_before_and_after_the_scale(self):
        self.open("two.html")
        cells = self.data("#figures td[data-figure]", "output", "spread", "figure", "value")
        self.assertEqual(len(cells), 2 * 2 * 8)
        for output, spread, figure, value in cells:
            of = self.json["two"][output]
            self.assertEqual(float(value), (of if spread == "before" else of["scaled"])[figure])
        self.assertEqual(self.texts("#figures .note"), [])
        self.assertIn("160 structures of the test part of pairs, predicted by the mean of 2 models", self.texts("[data-summary]")[0])

    def test_the_axes_have_the_units_of_the_data(self):
        self.open("two.html")
        texts = self.texts(f"{self.section('energy')} svg text")
        self.assertIn("label (eV / atom)", texts)
        self.assertIn("predicted energy (eV / atom)", texts)
        self.assertIn("spread (eV / atom)", texts)
        self.assertIn("label (units of the data)", self.texts(f"{self.section('forces')} svg text"))

    def test_parity_has_a_point_for_each_value_on_the_scales_of_its_axes(self):
        self.open("two.html")
        with open(self.folder / "two.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        points = self.browser.value(f"""[...document.querySelectorAll({json.dumps(self.section("energy") + " circle.value")})].map((one) =>
            [Number(one.dataset.structure), Number(one.getAttribute("cx")), Number(one.getAttribute("cy"))])""")
        self.assertEqual([number for number, _, _ in points], list(range(160)))
        labels = [float(row["energy_label"]) / int(row["atoms"]) for row in rows]
        predicted = [float(row["energy"]) / int(row["atoms"]) for row in rows]
        # Pixels are linear in values, with one scale for both axes.
        least, most = labels.index(min(labels)), labels.index(max(labels))
        slope = (points[most][1] - points[least][1]) / (labels[most] - labels[least])
        for i in range(160):
            self.assertAlmostEqual(points[i][1], points[least][1] + slope * (labels[i] - labels[least]), delta=0.01)
            self.assertAlmostEqual(points[0][2] - points[i][2], slope * (predicted[i] - predicted[0]), delta=0.01)

    def test_many_values_are_counted_in_squares(self):
        self.open("many.html")
        counts = [int(count) for count, in self.data(f"{self.section('forces')} rect.square", "count")]
        self.assertEqual(sum(counts), self.json["many"]["forces"]["count"])
        self.assertGreater(sum(counts), 2000)
        self.assertIn(f"all {sum(counts):,} are counted", self.texts(f"{self.section('forces')} p")[0])
        self.assertEqual(self.data(f"{self.section('forces')} circle.value", "structure"), [])

    def test_calibration_is_drawn_before_and_after_the_scale_with_its_area(self):
        self.open("two.html")
        for output in ("energy", "forces"):
            self.assertEqual(self.data(f"{self.section(output)} path[data-curve]", "curve", "points"), [("before", "100"), ("after", "100")])
            legends = [name for name, in self.data(f"{self.section(output)} [data-legend]", "legend")]
            of = self.json["two"][output]
            self.assertEqual(float(legends[0].split("area ")[1]), float(f"{of['miscalibration_area']:.4g}"))
            self.assertEqual(float(legends[1].split("area ")[1]), float(f"{of['scaled']['miscalibration_area']:.4g}"))

    def test_the_bins_of_error_over_spread_give_the_ence(self):
        self.open("two.html")
        for output in ("energy", "forces"):
            bins = self.data(f"{self.section(output)} circle[data-bin]", "bin", "spread", "error")
            for key, of in (("before", self.json["two"][output]), ("after", self.json["two"][output]["scaled"])):
                own = [(float(spread), float(error)) for name, spread, error in bins if name == key]
                self.assertEqual(len(own), 10)
                self.assertAlmostEqual(sum(abs(spread - error) / spread for spread, error in own) / 10 / of["ence"], 1, places=9)

    def test_the_largest_errors_have_number_formula_label_prediction_and_spread(self):
        self.open("two.html")
        with open(self.folder / "two.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        errors = [(float(row["energy"]) - float(row["energy_label"])) / int(row["atoms"]) for row in rows]
        order = sorted(range(len(errors)), key=lambda i: -abs(errors[i]))
        shown = self.rows("energy")
        self.assertEqual([int(row["structure"]) for row in shown], order[:50])
        for row in shown:
            given = rows[int(row["structure"])]
            self.assertEqual((row["formula"], row["atoms"]), (("CO", "2") if given["atoms"] == "2" else ("CH2", "3")))
            for name, column in (("label", "energy_label"), ("prediction", "energy"), ("spread", "energy_std")):
                self.assertAlmostEqual(float(row[name]) * int(given["atoms"]) / float(given[column]), 1, places=3)
        self.assertEqual(list(self.rows("forces")[0]), ["structure", "formula", "atoms", "atom", "column", "label", "prediction", "error", "spread"])

    def test_a_click_on_a_heading_sorts(self):
        self.open("two.html")
        for key, turns in (("structure", (False, True)), ("spread", (True, False))):
            for falls in turns:
                self.click(f'{self.section("energy")} [data-sort="{key}"]')
                values = [float(row[key]) for row in self.rows("energy")]
                self.assertEqual(values, sorted(values, reverse=falls))
                self.assertEqual(self.browser.value(f"document.querySelector({json.dumps(self.section('energy') + ' th[aria-sort]')}).textContent"), key)

    def test_hover_shows_a_value(self):
        self.open("two.html")
        left, top, width, height = self.box(f"{self.section('energy')} circle.value")
        self.browser.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.assertRegex(self.tip(), r"^structure \d+\nlabel -?\d.* eV / atom\nprediction -?\d.*\nspread \d.*$")

    def test_without_a_spread_calibration_is_left_out_with_a_sentence(self):
        self.open("one.html")
        self.assertIn("has no spread, so nothing is said of calibration", self.texts('#figures [data-note="spread"]')[0])
        self.assertEqual(self.data("path[data-curve], circle[data-bin]", "curve"), [])
        self.assertNotIn("spread", self.rows("energy")[0])
        self.assertEqual(len(self.data("circle.value", "structure")), 160 + self.json["one"]["forces"]["count"])
        self.assertTrue(math.isfinite(self.json["one"]["forces"]["mae"]))

    def test_why_there_is_no_scale_or_nothing_to_judge_is_said(self):
        self.open("many.html")
        self.assertEqual(self.texts('#figures [data-note="scale"]'),
                         ["No factor of the spread is fitted: pairs.xyz is no prepared dataset with a validation part."])
        self.assertEqual({curve for curve, in self.data("path[data-curve]", "curve")}, {"before"})
        self.open("bare.html")
        self.assertEqual(self.texts('[data-note="labels"]'), [f"No structure has a label of {output}, so it is not judged." for output in ("energy", "forces")])


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: there is no chromium; tools/setup --test installs it")
        sys.exit(77)
    unittest.main()
