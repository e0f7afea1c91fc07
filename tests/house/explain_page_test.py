"""Opens the pages of terrace explain in a browser without a window: values, choices, hover, brushes, colours, widths. Exits with
77 where there is no Chromium."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser, PageTest  # noqa: E402

TERRACE = pathlib.Path(sys.argv.pop(1)).resolve() / "terrace"
CHROMIUM = shutil.which("chromium")
SCHEMES = ("light", "dark")
PHONE_WIDTH = 390


def write_results(folder, several=False, scale=1.0):
    """240 trials: a learning rate with many values, one with few, a word, and one that is missing at times. The largest rates fail.
    The objective is that of other folders times `scale`."""
    folder.mkdir()
    objectives = "objective_0,objective_1" if several else "objective"
    lines = [f"p:rate,p:layers,p:activation,p:warmup,{objectives},job_id,job_status,m:timestamp_submit,m:memory_bytes,m:reason"]
    for i in range(240):
        rate, layers, activation = 10 ** -(5 - 4 * ((i * 37) % 240) / 240), 2 + i % 7, ("relu", "gelu", "<b>")[i // 7 % 3]
        score = layers - abs(3 - 4 * ((i * 37) % 240) / 240) + (activation == "gelu")
        values = ["F_nan" if rate > 0.05 else f"{score * scale:.9g}"] + (["F_nan" if rate > 0.05 else str(-layers)] if several else [])
        memory = "" if rate > 0.05 else str((10 + layers) * 2**30)
        lines.append(f"{rate},{layers},{activation},{('', '100')[i % 2]},{','.join(values)},{i},DONE,{i}.5,{memory},")
    (folder / "results.csv").write_text("\n".join(lines) + "\n")


class Pages(PageTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.json = {}
        for name in ("one", "two", "small"):
            write_results(cls.folder / name, several=name == "two", scale=1e-5 if name == "small" else 1)
            result = cls.explain(name)
            assert result.returncode == 0 and result.stdout.endswith(f"The page is {name}/explain.html\n"), result.stdout + result.stderr
            cls.json[name] = json.loads(cls.explain(name, "--json").stdout)
        cls.browser = Browser(CHROMIUM, cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)

    @classmethod
    def explain(cls, *arguments):
        return subprocess.run([TERRACE, "explain", *arguments], cwd=cls.folder, capture_output=True, text=True, timeout=120)

    def open(self, name, width=1280, scheme="light"):
        super().open(f"{name}/explain.html", width, scheme)


class Looks(Pages):
    def test_pages_draw_in_both_schemes_and_fit_a_phone(self):
        for name in ("one", "two"):
            for scheme in SCHEMES:
                for width in (1280, PHONE_WIDTH):
                    with self.subTest(name=name, scheme=scheme, width=width):
                        self.open(name, width, scheme)
                        self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.browser.problems, [])
                        self.assertEqual(self.overlaps("#ranking text"), [])
                        self.assertEqual(self.overlaps("#interactions text"), [])
                        self.assertEqual(self.overlaps("#parallel text"), [])
                        self.assertEqual(self.scrolling(), [])

    def test_windows_without_room_draw_no_negative_sizes(self):
        for width in (1, 60, 150):
            self.open("two", width)
            self.assertEqual(self.browser.problems, [], width)

    def test_lines_of_trials_do_not_cross_out_the_labels_of_their_axes(self):
        for width in (1280, PHONE_WIDTH):
            self.open("one", width)
            labels = self.browser.value("""[...document.querySelectorAll("#parallel text")].map((text) => {
                const ground = text.previousElementSibling, [a, b] = [text, ground].map((one) => one.getBoundingClientRect());
                return [text.textContent, ground.matches("rect.ground") && Number(getComputedStyle(ground).fillOpacity) > 0.8 &&
                        b.left <= a.left && a.right <= b.right && b.top <= a.top + 1 && a.bottom <= b.bottom + 1];
            })""")
            self.assertGreater(len(labels), 10)
            self.assertEqual([text for text, has_ground in labels if not has_ground], [])

    def test_numbers_of_a_range_have_round_ticks(self):
        self.open("one")
        powers = ["1e-5", "1e-4", "0.001", "0.01"]
        self.assertEqual(self.texts('#parallel g:has(> [data-axis="rate"]) text.value'), powers)
        dependence = self.texts('#dependence .multiples > div:has([data-parameter="rate"]) svg text.middle')
        self.assertEqual(dependence, powers)
        # Numbers of a list have a label each.
        self.assertEqual(self.texts('#parallel g:has(> [data-axis="layers"]) text.value'), [str(layers) for layers in range(2, 9)])

    def test_a_phone_has_the_axes_below_each_other(self):
        self.open("one", PHONE_WIDTH)
        axes = self.browser.value("""[...document.querySelectorAll("#parallel line.base")].map((line) => line.getBoundingClientRect())
            .map((box) => [box.width > box.height, box.top])""")
        self.assertEqual(len(axes), 5)
        self.assertTrue(all(is_lying for is_lying, _ in axes))
        self.assertEqual([top for _, top in axes], sorted(top for _, top in axes))

    def overlaps(self, selector):
        """Pairs of texts of which one covers a part of the other."""
        return self.browser.value(f"""((all) => all.flatMap((a, i) => all.slice(i + 1).filter((b) => {{
            const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
            return p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1;
        }}).map((b) => [a.textContent, b.textContent])))([...document.querySelectorAll({json.dumps(selector)})].filter((one) => one.textContent))""")

    def test_nothing_is_fetched_and_words_are_text(self):
        self.open("one")
        self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"), 0)
        self.assertEqual(self.data("#page b"), [])
        self.assertIn("<b>", self.texts("#dependence text"))

    def test_another_scheme_draws_again(self):
        self.open("one")
        drawn = self.browser.value("document.querySelector('#parallel canvas').toDataURL()")
        self.browser.set_scheme("dark")
        self.assertNotEqual(self.browser.value("document.querySelector('#parallel canvas').toDataURL()"), drawn)


class Values(Pages):
    def test_the_data_are_the_json_of_the_command(self):
        for name, printed in self.json.items():
            self.open(name)
            self.assertEqual(json.loads(self.browser.value("document.getElementById('data').textContent")), printed)

    def test_ranking_and_interactions_are_those_of_the_chosen_attribution(self):
        self.open("one")
        for one in self.json["one"]["attributions"]:
            self.click(f'[data-attribution="{one["name"]}"]')
            bars = [(name, float(effect), float(share)) for name, effect, share in self.data("#ranking rect", "parameter", "effect", "share")]
            self.assertEqual(bars, [(bar["parameter"], bar["effect"], bar["share"]) for bar in one["ranking"]])
            expected = {(row["parameter"], row["parameter"]): row["own_effect"] for row in one["ranking"]}
            for pair in one["pairs"]:
                expected[tuple(pair["parameters"])] = expected[tuple(pair["parameters"][::-1])] = pair["effect"]
            cells = {(row, column): float(effect) for row, column, effect in self.data("#interactions rect", "row", "column", "effect")}
            self.assertEqual(cells, expected)
        self.assertEqual([bar[0] for bar in bars][0], "rate")
        self.assertIn("240 trials: ", self.texts("#summary")[0])
        self.assertEqual([name for name, in self.data("[data-fit]", "fit")], ["objective", "failure"])

    # Two digits or one, in a unit that makes the largest effect a number from 1 to 10 where it is small.
    def test_interactions_of_a_small_objective_are_as_readable_as_those_of_a_large_one(self):
        for name, unit in (("one", r"objective\."), ("small", r"objective, in 10\u207b\u2075\.")):
            self.open(name)
            self.assertRegex(self.texts("#interactions p.quiet")[1], rf"^What is explained: {unit}$")
            effects = [float(effect) / (1 if name == "one" else 1e-5) for effect, in self.data("#interactions rect", "effect")]
            self.assertGreater(max(effects), 1)
            cells = self.texts("#interactions rect.cell + text")
            self.assertEqual(len(cells), len(effects))
            for text, effect in zip(cells, effects, strict=True):
                self.assertAlmostEqual(float(text), effect, delta=0.5 * max(0.011, 0.1 * effect) if effect > 0.0095 else 0.5 * effect)

    def test_dependence_draws_contributions(self):
        self.open("two")
        data = self.json["two"]
        of = data["attributions"][0]
        place = {row: i for i, row in enumerate(of["rows"])}
        for number, parameter in enumerate(data["parameters"]):
            points = self.data(f'#dependence circle[data-parameter="{parameter["name"]}"]', "row", "value")
            has_value = [row for row in of["rows"] if parameter["values"][parameter["indices"][row]]]
            self.assertEqual({int(row) for row, _ in points}, set(has_value), "trials without the parameter are left out")
            for row, value in points:
                self.assertEqual(float(value), of["contributions"][number][place[int(row)]])

    def test_a_parameter_that_some_trials_lack_says_so(self):
        self.open("one")
        trials = {one["parameter"]: one["trials"] for one in self.json["one"]["attributions"][0]["ranking"]}
        note = f"warmup exists in {trials['warmup']} of {trials['rate']} trials; its figures are of them alone."
        self.assertEqual([text for text in self.texts("#dependence p.quiet") if "exists" in text], [note])
        self.assertIn(note, self.point_at('#ranking rect[data-parameter="warmup"]'))

    def test_convergence_ends_at_the_best_and_marks_failures(self):
        self.open("one")
        data = self.json["one"]
        values = data["objectives"][0]["values"]
        self.assertEqual([float(one) for one, in self.data("#convergence [data-best]", "best")], [max(value for value in values if value is not None)])
        self.assertEqual(self.data("#convergence [data-failed]", "failed"), [(str(data["failed"]),)])
        drawn = {int(row): float(value) for row, value in self.data("#convergence circle[data-row]", "row", "value")}
        self.assertEqual(drawn, {row: value for row, value in enumerate(values) if value is not None})

    def test_the_pareto_front_is_that_of_the_objectives_and_follows_the_choice(self):
        self.open("two")
        data = self.json["two"]
        front = {int(row) for row in self.data("#pareto [data-front]", "front")[0][0].split()}
        self.assertEqual(front, set(data["pareto_front"]))
        first, second = (one["values"] for one in data["objectives"])
        done = [row for row in range(240) if first[row] is not None]
        betters = lambda a, b: first[a] >= first[b] and second[a] >= second[b] and (first[a], second[a]) != (first[b], second[b])  # noqa: E731
        self.assertEqual(front, {row for row in done if not any(betters(other, row) for other in done)})
        # Where smaller is better in both, the front is another one.
        for side in "xy":
            self.click(f'#pareto [data-side="{side}"]')
        self.assertNotEqual({int(row) for row in self.data("#pareto [data-front]", "front")[0][0].split()}, front)
        self.browser.value("((choice) => { choice.value = 'memory_bytes'; choice.dispatchEvent(new Event('change')); })"
                           "(document.querySelector('#pareto select'))")
        self.assertIn("memory_bytes, GiB", self.texts("#pareto svg text"))

    def test_the_table_has_the_best_trials(self):
        self.open("one")
        data = self.json["one"]
        rows = [(int(row), float(value)) for row, value in self.data("#best td[data-row]", "row", "value")]
        self.assertEqual(rows, [(row, data["objectives"][0]["values"][row]) for row in data["best"]])
        self.assertEqual(rows, sorted(rows, key=lambda one: -one[1]))

    def test_the_values_of_the_best_trials_are_below_their_objectives_where_columns_do_not_fit(self):
        self.open("one")
        self.assertEqual(self.data("#best td[data-values]", "values"), [])
        self.open("one", 280)
        data = self.json["one"]
        values = self.data("#best td[data-values]", "values")
        self.assertEqual([int(row) for row, in values], data["best"])
        first = self.texts("#best td[data-values]")[0]
        for parameter in data["parameters"]:
            self.assertIn(f"{parameter['name']} = ", first)


class Pointer(Pages):
    def test_hover_shows_values(self):
        self.open("one")
        first = self.json["one"]["attributions"][0]["ranking"][0]
        self.assertTrue(self.point_at("#ranking rect").startswith(f"{first['parameter']}\n{100 * first['share']:.1f}% of all effects\n"))
        self.assertRegex(self.point_at('#interactions rect[data-row="rate"][data-column="layers"]'), r"^rate with layers\n")
        self.assertRegex(self.point_at("#dependence circle:last-of-type"), r" on objective\n.*\ntrial \d+$")
        self.assertRegex(self.point_at("#convergence .hoverable"), r"^trial 1[12]\d\n(.*\n)+best so far: \d")
        self.assertRegex(self.point_at("#pareto circle:last-of-type"), r"^trial \d+\nmemory_bytes: \d+\.\d GiB\nobjective: ")

    def test_brushes_choose_trials(self):
        self.open("one")
        data = self.json["one"]
        self.assertEqual(self.data("#parallel canvas", "done", "failed"), [(str(240 - data["failed"]), str(data["failed"]))])
        left, top, width, height = self.box('#parallel [data-axis="activation"] .background')
        x = left + width / 2
        self.browser.mouse("mousePressed", x, top + 5, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", x, top + height / 3, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x, top + height / 3, button="left", clickCount=1)
        words = data["parameters"][2]
        top_word = words["values"].index("relu")  # the last by alphabet is at the top
        chosen = [row for row, index in enumerate(words["indices"]) if index == top_word]
        failed = sum(data["failures"][row] is not None for row in chosen)
        self.assertEqual(self.data("#parallel canvas", "done", "failed"), [(str(len(chosen) - failed), str(failed))])
        # The choice stays where the axes lie below each other, and is another one after another drag.
        self.browser.call("Emulation.setDeviceMetricsOverride", width=PHONE_WIDTH, height=900, deviceScaleFactor=1, mobile=False)
        self.assertEqual(self.data("#parallel canvas", "done", "failed"), [(str(len(chosen) - failed), str(failed))])
        left, top, width, height = self.box('#parallel [data-axis="activation"] .background')
        y = top + height / 2
        self.browser.mouse("mousePressed", left + 30, y, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", left + width / 3, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", left + width / 3, y, button="left", clickCount=1)
        chosen = [row for row, index in enumerate(words["indices"]) if index == 0]
        failed = sum(data["failures"][row] is not None for row in chosen)
        self.assertEqual(self.data("#parallel canvas", "done", "failed"), [(str(len(chosen) - failed), str(failed))])


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: there is no chromium; tools/setup --test installs it")
        sys.exit(77)
    unittest.main()
