"""Opens the page of terrace score in a browser without a window: scores, charts, maps, choices, hover, colours, widths. Exits with
77 where there is no Chromium."""
import json
import math
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cli"), str(pathlib.Path(__file__).resolve().parent)]
from browser import Browser, PageTest  # noqa: E402
from forecast_test import MODEL, WRITE_FIELDS, prepare, python  # noqa: E402
from commands_test import terrace  # noqa: E402

CHROMIUM = shutil.which("chromium")
PHONE_WIDTH = 390


class Page(PageTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        python(WRITE_FIELDS, "fields.in", 6, "u", folder=cls.folder)
        prepare(cls.folder, "fields.in", "fields")
        (cls.folder / "run.toml").write_text(MODEL)
        assert terrace("train", "run.toml", folder=cls.folder).returncode == 0
        cls.json = {"one": cls.score("--page", "one.html"),
                    "several": cls.score("--lead", "18h", "--rollout", "6h", "--page", "several.html", "--map-start", "2001-03-12T06")}
        cls.browser = Browser(CHROMIUM, cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def score(cls, *arguments):
        result = terrace("score", "run", "--data", "fields", "--json", *arguments, folder=cls.folder)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def test_draws_in_both_schemes_and_fits_a_phone(self):
        for name in ("one", "several"):
            for scheme in ("light", "dark"):
                for width in (1280, PHONE_WIDTH):
                    with self.subTest(name=name, scheme=scheme, width=width):
                        self.open(f"{name}.html", width, scheme)
                        self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.browser.problems, [])

    def test_a_window_without_room_draws_without_a_message(self):
        for name in ("one", "several"):
            self.open(f"{name}.html", 20)
            self.assertEqual(self.browser.problems, [])

    def test_the_table_and_the_bars_have_the_scores(self):
        self.open("one.html")
        variables = self.json["one"]["variables"]
        cells = {(name, figure): float(value) for name, figure, value in self.data("#scores td[data-figure]", "variable", "figure", "value")}
        self.assertEqual(len(cells), 12)
        for (name, figure), value in cells.items():
            self.assertEqual(value, variables[name][figure])
        bars = {(name, kind): float(value) for name, kind, value in self.data("#scores rect[data-kind]", "variable", "kind", "value")}
        self.assertEqual({kind for _, kind in bars}, {"forecast", "persistence", "damped persistence"})
        for name, figures in variables.items():
            self.assertAlmostEqual(bars[name, "forecast"], figures["rmse"] / figures["climatology_rmse"], places=12)
            self.assertAlmostEqual(bars[name, "persistence"], figures["persistence_rmse"] / figures["climatology_rmse"], places=12)
        self.assertEqual(self.texts("#leads"), [])

    def test_the_bars_leave_room_for_the_table(self):
        self.open("several.html")
        self.assertEqual(self.browser.value("""(() => {
            const [a, b] = ["#scores svg[role=img]", "#scores table"].map((one) => document.querySelector(one).getBoundingClientRect());
            return a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1; })()"""), True)

    def test_errors_by_lead_are_drawn_for_several_leads(self):
        self.open("several.html")
        curves = self.data("#leads path.curve", "variable", "kind", "points")
        self.assertEqual(len(curves), 2 * 4)
        self.assertEqual({points for _, _, points in curves}, {"3"})
        self.click('#scores [data-lead="18h"]')
        cells = {(name, figure): float(value) for name, figure, value in self.data("#scores td[data-figure]", "variable", "figure", "value")}
        self.assertEqual(cells["u", "rmse"], self.json["several"]["leads"]["18h"]["variables"]["u"]["rmse"])

    def with_scores(self, name, change):
        """A page whose scores `change` has changed: one of a model that fails at some variables."""
        text = (self.folder / "several.html").read_text()
        written = re.search(r'id="data">(.*?)</script', text, re.S)[1]
        data = json.loads(written)
        for lead in data["leads"].values():
            change(lead["variables"])
        (self.folder / name).write_text(text.replace(written, json.dumps(data).replace("<", "\\u003c")))
        self.open(name)
        return data

    def test_the_forecast_is_drawn_above_the_others(self):
        self.open("several.html")
        curves = self.data('#leads path.curve[data-variable="u"]', "kind")
        self.assertEqual([kind for kind, in curves], ["damped persistence", "climatology", "persistence", "forecast"])
        widths = self.browser.value("""[...document.querySelectorAll('#leads path.curve[data-variable="u"]')].map((one) =>
            parseFloat(getComputedStyle(one).strokeWidth))""")
        self.assertGreater(widths[3], max(widths[:3]))

    def test_bars_and_lines_are_readable_where_one_is_134_times_larger(self):
        def fail(variables):
            for name, factor in (("u", 134), ("t_500", 0.5)):
                variables[name]["rmse"] = factor * variables[name]["climatology_rmse"]

        data = self.with_scores("far.html", fail)
        self.assertIn("error as a share of that of climatology, logarithmic", self.texts("#scores svg text"))
        bars = self.browser.value("""[...document.querySelectorAll("#scores rect[data-kind]")].map((one) =>
            [one.dataset.variable, one.dataset.kind, ...["x", "width"].map((key) => Number(one.getAttribute(key)))])""")
        line = self.browser.value("Number(document.querySelector('#scores line.bound').getAttribute('x1'))")
        figures = data["leads"][list(data["leads"])[0]]["variables"]
        keys = {"forecast": "rmse", "persistence": "persistence_rmse", "damped persistence": "damped_persistence_rmse"}
        shares = [figures[name][keys[kind]] / figures[name]["climatology_rmse"] for name, kind, _, _ in bars]
        # Lengths are of logarithms, from the line at 1 to the left or to the right.
        scale = max(width for *_, width in bars) / math.log(134)
        for (_, _, x, width), share in zip(bars, shares):
            self.assertAlmostEqual(width, scale * abs(math.log(share)), delta=0.01)
            self.assertAlmostEqual(x, line if share > 1 else line - width, delta=0.01)
        self.assertGreater(min(width for (*_, width), share in zip(bars, shares) if share == 0.5), 20)
        self.assertIn("134", self.texts("#scores svg text"))
        self.assertTrue(any("logarithmic" in text for text in self.texts("#leads text")))
        self.assertEqual(self.browser.value("[...document.querySelectorAll('#leads path.curve')].every((one) => !one.getAttribute('d').includes('NaN'))"), True)

    def test_errors_of_zero_are_drawn(self):
        def constant(variables):
            for figures in variables.values():
                figures |= {key: 0.0 for key in figures if key.endswith("rmse")}

        self.with_scores("zero.html", constant)  # no share of an error of 0, and no message in the console

    def test_maps_show_truth_forecast_and_error(self):
        self.open("several.html")
        self.assertEqual([name for name, in self.data("#maps canvas", "map")], ["truth", "forecast", "error"])
        self.assertIn("t_500 at 2001-03-12T12:00:00, forecast 6h ahead from 2001-03-12T06:00:00.", self.texts("#maps p")[0])
        self.click('#maps [data-variable="u"]')
        self.click('#maps [data-maplead="12h"]')
        self.assertIn("u at 2001-03-12T18:00:00, forecast 12h ahead", self.texts("#maps p")[0])
        # 5 cos(0.2 time - 0.8 column) (1 + row) at time 47, column 3 and row 1, of six rows from the south.
        said = self.point_at('#maps canvas[data-map="truth"]', 3.5 / 8, 4.5 / 6)
        self.assertRegex(said, r"^-?\d+(\.\d+)? m s\*\*-1\n45.0° S, 135.0° E$")
        self.assertAlmostEqual(float(said.split()[0]), 5 * math.cos(0.2 * 47 - 0.8 * 3) * (1 + 1), delta=0.4)
        colours = self.browser.value("""(() => { const canvas = document.querySelector('#maps canvas'), context = canvas.getContext("2d");
            return new Set(context.getImageData(0, 0, canvas.width, canvas.height).data).size; })()""")
        self.assertGreater(colours, 20, "a map of one colour shows nothing")

    def test_coastlines_are_drawn_or_said_to_be_missing(self):
        self.open("one.html")
        lengths = self.browser.value("[...document.querySelectorAll('#maps .map path')].map((one) => one.getAttribute('d').length)")
        self.assertEqual(len(lengths), 3)
        notes = self.texts('#maps [data-note="coastlines"]')
        if pathlib.Path("/usr/share/gmt-gshhg/binned_GSHHS_c.nc").exists():
            self.assertEqual(notes, [])
            self.assertGreater(min(lengths), 10000)
        else:
            self.assertIn("install the Debian package gmt-gshhg-low", notes[0])
            self.assertEqual(max(lengths), 0)

    def test_hover_shows_scores(self):
        self.open("one.html")
        self.assertRegex(self.point_at('#scores rect[data-kind="forecast"]'), r"^t_500, 6h ahead\nforecast: \d.* K\n\d+\.\d% of climatology$")


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: there is no chromium; tools/setup --test installs it")
        sys.exit(77)
    unittest.main()
