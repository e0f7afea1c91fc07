"""Opens the pages of terrace report in a browser without a window: values, hover, zoom, colours, widths. Exits with 77 where
there is no Chromium."""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from browser import Browser, PageTest  # noqa: E402
from report_runs import write_run  # noqa: E402

TERRACE = pathlib.Path(sys.argv.pop(1)).resolve() / "terrace"
ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
SCHEMES = ("light", "dark")
PHONE_WIDTH = 390


def report(*arguments, folder):
    return subprocess.run([TERRACE, "report", *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=60)


def json_of(path):
    return json.loads(path.read_text())


class Pages(PageTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.run_folder = write_run(cls.folder / "a")
        write_run(cls.folder / "b", seed=1, sources=("predicted",))
        write_run(cls.folder / "<img src=x>&amp;", sources=())
        write_run(cls.folder / "long", stages=16, micro_batches=500)
        cls.browser = Browser(CHROMIUM, cls.folder / "profile")
        cls.addClassCleanup(cls.browser.close)
        cls.page("one.html", "a")
        cls.page("two.html", "a", "b")

    @classmethod
    def page(cls, name, *runs):
        result = report(*runs, "--output", name, folder=cls.folder)
        assert (result.returncode, result.stdout) == (0, f"{name}\n"), result.stdout + result.stderr


class Looks(Pages):
    def test_the_default_is_a_file_in_the_first_folder_whose_path_is_printed(self):
        result = report("a", "b", folder=self.folder)
        self.assertEqual((result.returncode, result.stdout), (0, "a/report.html\n"), result.stderr)
        self.assertIn("Michael Bostock", (self.folder / "a/report.html").read_text())

    def test_pages_draw_in_both_schemes_and_fit_a_phone(self):
        self.page("long.html", "long")
        grounds = set()
        for name in ("one.html", "two.html", "long.html"):
            for scheme in SCHEMES:
                for width in (1280, PHONE_WIDTH):
                    with self.subTest(name=name, scheme=scheme, width=width):
                        self.open(name, width, scheme)
                        self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
                        grounds.add((scheme, self.browser.value("getComputedStyle(document.body).backgroundColor")))
                        self.assertEqual(self.browser.problems, [])
                        if width == PHONE_WIDTH:
                            self.assertEqual(self.scrolling(), [])
        self.assertEqual(len(grounds), len(SCHEMES))

    def test_what_scrolls_inside_of_the_page_fades_out_where_there_is_more(self):
        self.page("long.html", "long")
        self.open("long.html")
        self.assertEqual(self.scrolling(), [["timeline", "view", "bottom"]])
        self.assertIn("linear-gradient", self.browser.value("getComputedStyle(document.querySelector('.view')).maskImage"))
        self.browser.value("document.querySelector('.view').scrollTo(0, 1e6)")
        self.assertEqual(self.data(".view", "more"), [("top",)])

    def test_a_phone_shows_the_memory_of_a_few_stages_and_of_all_on_request(self):
        self.page("long.html", "long")
        self.open("long.html", PHONE_WIDTH)
        self.assertEqual(self.texts("#memory h4"), [f"stage {stage}" for stage in range(4)])
        self.assertEqual(self.texts("#memory button"), ["all 16 stages"])
        self.browser.value("document.querySelector('#memory button').click()")
        self.assertEqual(self.texts("#memory h4"), [f"stage {stage}" for stage in range(16)])
        self.assertEqual(self.texts("#memory button"), [])

    def test_windows_without_room_draw_no_negative_sizes(self):
        for width in (1, 60, 150):
            self.open("one.html", width)
            self.assertEqual(self.browser.problems, [], width)

    def test_legends_have_what_is_drawn(self):
        self.open("one.html")
        roofline = ["predicted", "measured", "products", "attention", "predicted operation", "measured operation"]
        self.assertEqual(self.data("#roofline li", "legend"), [(name,) for name in roofline])
        # Training records a step in this way: what its operations reached and its machine are not measured.
        folder = write_run(self.folder / "trained")
        record = json_of(folder / "measured_step.json")
        record.update(operations=[], peak_flops=0, memory_bandwidth=0)
        for stage in record["stages"]:
            stage.update(memory=[])
            stage["seconds"]["attention"] = 0
        (folder / "measured_step.json").write_text(json.dumps(record))
        predicted = json_of(folder / "predicted_step.json")
        for stage in predicted["stages"]:
            del stage["seconds"]["attention"]
        (folder / "predicted_step.json").write_text(json.dumps(predicted))
        self.page("trained.html", "trained")
        self.open("trained.html")
        self.assertEqual(self.data("#roofline li", "legend"), [("predicted",), ("products",), ("attention",), ("predicted operation",)])
        self.assertEqual(self.data("#memory li", "legend"), [("predicted",)])
        self.assertNotIn(("attention",), self.data("#split li", "legend"))

    def test_another_scheme_or_width_draws_again(self):
        self.open("one.html")
        before = self.browser.value("document.querySelector('#timeline canvas').width")
        self.browser.call("Emulation.setDeviceMetricsOverride", width=PHONE_WIDTH, height=900, deviceScaleFactor=1, mobile=False)
        self.assertLess(self.browser.value("document.querySelector('#timeline canvas').width"), before)
        pixels = "document.querySelector('#timeline canvas').toDataURL()"
        drawn = self.browser.value(pixels)
        self.browser.set_scheme("dark")
        self.assertNotEqual(self.browser.value(pixels), drawn)

    def test_nothing_is_fetched(self):
        self.open("one.html")
        self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"), 0)

    def test_a_run_without_records_says_how_to_get_them_and_names_are_text(self):
        self.page("none.html", "<img src=x>&amp;")
        self.open("none.html")
        self.assertEqual(self.texts("h1"), ["<img src=x>&amp;"])
        self.assertEqual(self.browser.value("document.title"), "<img src=x>&amp;")
        (note,) = self.texts("[data-note]")
        for word in ("predicted_step.json", "measured_step.json", "observe.machine"):
            self.assertIn(word, note)
        self.assertEqual(self.data("section[id] canvas, #comparison, #roofline"), [])
        self.assertEqual(self.data("#losses path[data-run]", "points"), [("200",)])


class Values(Pages):
    def test_the_data_are_those_of_the_files(self):
        self.open("two.html")
        data = json.loads(self.browser.value("document.getElementById('data').textContent"))
        self.assertEqual([run["name"] for run in data["runs"]], ["a", "b"])
        for source in ("predicted", "measured"):
            self.assertEqual(data["runs"][0][source], json_of(self.run_folder / f"{source}_step.json"))
        self.assertIsNone(data["runs"][1]["measured"])
        lines = [json.loads(line) for line in (self.run_folder / "metrics.jsonl").read_text().splitlines()]
        for kind, key in (("training", "loss"), ("validation", "validation_loss")):
            self.assertEqual(data["runs"][0]["losses"][kind], [[line["step"], line[key]] for line in lines if key in line])

    def test_headline_figures_stand_side_by_side(self):
        self.open("two.html")
        self.assertEqual(self.texts("#figures th")[1:], ["a", "b"])
        self.assertEqual(self.texts('#figures [data-figure="tokens_per_second"]'), ["5,424", "5,424"])
        self.assertEqual(self.texts('#figures [data-figure="step_seconds"]'), ["503 ms", "503 ms"])
        self.assertEqual(self.texts('#figures [data-figure="mfu"]'), ["50.0%", "50.0%"])
        self.assertEqual(self.texts('#figures [data-figure="memory_bytes"]'), ["594 MiB", "594 MiB"])

    def test_counts_are_whole_numbers(self):
        write_run(self.folder / "short", sources=(), steps=60)
        self.page("short.html", "short")
        self.open("short.html")
        self.assertEqual(self.texts('#figures [data-figure="steps"]'), ["60"])
        self.assertEqual(self.texts('#figures [data-figure="parameters"]'), ["124,439,808"])

    # The pipeline of the fixture computes products for 0.1568 of 0.3 s on every stage.
    def test_one_sentence_says_what_limited_the_run(self):
        self.open("two.html")
        measured, predicted = self.texts("[data-limit]")
        self.assertRegex(measured, r"^a: The largest share of the measured step, 52\.3% of the time of all stages, goes to products "
                                   r"\(52\.3% on stage \d\); 19\.0% goes to waits for stages\.$")
        self.assertRegex(predicted, "^b: The largest share of the predicted step, 52.3% .* goes to products")

    def test_predicted_and_measured_are_compared(self):
        self.open("one.html")
        records = {source: json_of(self.run_folder / f"{source}_step.json") for source in ("predicted", "measured")}
        cells = self.data("#comparison td[data-part]", "part", "source", "value")
        values = {(part, source): float(value) for part, source, value in cells if value is not None}
        for source, record in records.items():
            self.assertEqual(values["step_seconds", source], record["step_seconds"])
            for key in ("seconds", "memory_bytes"):
                for name in record["stages"][0][key]:
                    mean = sum(stage[key][name] for stage in record["stages"]) / 2
                    self.assertAlmostEqual(values[f"{key}.{name}", source], mean, delta=1e-9 * mean)
        # Only the sum of the waits for other stages is measured.
        divided = {"seconds.waits in the bubble", "seconds.waits for queued transfers"}
        waits = [values[part, "predicted"] for part in sorted(divided)]
        self.assertAlmostEqual(values["seconds.waits for stages", "predicted"], sum(waits), places=12)
        self.assertFalse({(part, "measured") for part in divided} & set(values))
        for part in {part for part, _ in values} - divided:
            error = values[part, "predicted"] / values[part, "measured"] - 1
            self.assertAlmostEqual(values[part, "error"], error, places=12)
        # 15 turns of 0.02 s, which take 12% longer where they are measured.
        self.assertEqual(self.texts('#comparison [data-part="step_seconds"]'), ["300 ms", "336 ms", "−10.7%"])

    def test_the_comparison_shows_one_stage_on_request(self):
        self.open("one.html")
        self.browser.value("((choice) => { choice.value = '1'; choice.dispatchEvent(new Event('change')); })"
                           "(document.querySelector('#comparison select'))")
        self.assertEqual(self.texts('#comparison [data-part="memory_bytes.activations"]'), ["1.50 GiB", "1.74 GiB", "−13.8%"])

    def test_communication_has_bytes_time_bandwidth_and_what_was_waited_for(self):
        self.open("one.html")
        row = '#communication [data-group="{}"][data-source="{}"]'
        self.assertEqual(self.texts(row.format("shard_gradients", "predicted")), ["3.00 GB", "60.0 ms", "50.0 GB/s", "20.0 ms", "33.3%"])
        # A prediction does not separate the time that sends are waited for from other waits.
        self.assertEqual(self.texts(row.format("stages", "predicted")), ["2.00 GB", "40.0 ms", "50.0 GB/s", "\u2013", "\u2013"])
        self.assertEqual(self.texts(row.format("stages", "measured"))[3:], ["10.0 ms", "22.3%"])
        self.assertEqual(self.texts("#communication th[colspan]"),
                         ["shard_gradients, links of the node", "tensor, links of the package", "sends to other stages, links of the node"])
        # Waits in the other tables are means of all stages, so the stage is named.
        self.assertEqual(self.texts("#communication td.indented"), [f"{source}, stage {stage}" for stage in (1, 0, 0) for source in ("predicted", "measured")])
        # Time that was not measured gives no bandwidth.
        self.assertEqual(self.texts(row.format("tensor", "measured")), ["5.00 GB", "\u2013", "\u2013", "56.0 ms", "\u2013"])

    def test_charts_draw_the_records(self):
        self.open("one.html")
        measured = json_of(self.run_folder / "measured_step.json")
        drawn = {(stage, part): float(value) for stage, part, value in
                 self.data('#split [data-source="measured"]', "stage", "part", "value")}  # fmt: skip
        self.assertEqual(drawn, {(str(stage["stage"]), part): value for stage in measured["stages"] for part, value in stage["seconds"].items()})
        self.assertEqual(sorted(self.data("#memory path[data-source]", "stage", "source")),
                         [(stage, source) for stage in "01" for source in ("measured", "predicted")])
        # Elements have no FLOPs.
        points = self.data('#roofline circle[data-source="measured"]', "operation", "intensity", "rate")
        expected = [(one["name"], one["flops"] / one["bytes"], one["flops"] / one["seconds"]) for one in measured["operations"] if one["flops"]]
        self.assertEqual([(name, float(x), float(y)) for name, x, y in points], expected)
        # 1e14 FLOP/s at 333 FLOP/byte of a peak of 1.9e14.
        self.assertEqual(self.texts('#roofline [data-operation="products"][data-source="predicted"]:is(td)'),
                         ["300 ms", "333", "100 TFLOP/s", "300 GB/s", "52.6%"])
        self.assertEqual(len(self.data('#losses circle[data-run="0"]')), 4)
        self.assertEqual(self.data("#losses line[data-phase]", "phase"), [])

    def test_learning_rate_gradient_norm_and_speed_have_curves_beside_the_loss(self):
        folder = write_run(self.folder / "curved", sources=())
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "loss" not in line:
                continue
            line["learning_rate"] = 1e-3 * min(1, line["step"] / 20)
            line["gradient_norm"] = None if line["step"] == 7 else 500 if line["step"] == 90 else 1 + line["step"] / 400
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.page("curved.html", "curved", "a")
        for width in (1280, PHONE_WIDTH):
            self.open("curved.html", width)
            self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
            found = {key: self.data(f'#curves [data-curve="{key}"] path.curve', "run", "points") for key, in self.data("#curves [data-curve]", "curve")}
            self.assertEqual(found, {"learning_rate": [("0", "200"), ("1", "200")], "gradient_norm": [("0", "199"), ("1", "200")],
                                     "tokens_per_second": [("0", "200"), ("1", "200")]})  # fmt: skip
            self.assertEqual(self.texts("#curves h4"), ["learning rate", "gradient norm", "tokens/s"])
        # Where one step is far above the others, they can still be distinguished: 1.0025 and 1.5 are a factor of 1.5 in 500.
        self.open("curved.html")
        self.assertIn("logarithmic", self.texts('#curves [data-curve="gradient_norm"] text'))
        box = self.browser.value("""((path) => { const points = path.getAttribute("d").slice(1).split("L").map((one) => one.split(",").map(Number));
            const all = points.map((one) => one[1]); return [Math.min(...all), Math.max(...all), points[0][1], points[points.length - 1][1]]; })(
            document.querySelector('#curves [data-curve="gradient_norm"] path.curve[data-run="0"]'))""")  # fmt: skip
        self.assertAlmostEqual((box[2] - box[3]) / (box[1] - box[0]), math.log(1.5 / 1.0025) / math.log(500 / 1.0025), places=3)
        self.assertRegex(self.point_at('#curves [data-curve="learning_rate"] svg', 0.9), r"^curved, step \d+: 0\.001000\na, step \d+: 0\.001000$")

    def test_the_state_of_a_run_is_said_and_its_age_grows(self):
        state = {"state": "running", "reason": "", "step": 120, "steps": 2000, "seconds_left": 3725.0, "seconds_since_step": 61.0, "seconds_since_sign": 1.0}
        text = (self.folder / "one.html").read_text()
        self.assertIn('"state":null', text)
        (self.folder / "state.html").write_text(text.replace('"state":null', f'"state":{json.dumps(state)}'))
        self.open("state.html")
        self.assertRegex(self.texts("[data-state]")[0], r"^running, step 120 of 2,000, about 1 h 2 min left, last step 1 min \d s ago$")
        before = self.texts("[data-state]")[0]
        time.sleep(2.5)
        self.assertNotEqual(self.texts("[data-state]")[0], before)
        stopped = state | {"state": "stopped", "reason": "on request", "seconds_since_step": None}
        (self.folder / "state.html").write_text(text.replace('"state":null', f'"state":{json.dumps(stopped)}'))
        self.open("state.html")
        self.assertRegex(self.texts("[data-state]")[0], r"^stopped, step 120 of 2,000, last sign \d s ago; on request$")
        self.open("one.html")
        self.assertEqual(self.texts("[data-state]"), [])

    def test_noise_scales_have_a_sentence_and_a_curve(self):
        self.open("one.html")
        self.assertEqual(self.data("#noise path[data-run]", "points"), [])
        folder = write_run(self.folder / "noisy", sources=())
        facts = json_of(folder / "run.json")
        (folder / "run.json").write_text(json.dumps({**facts, "samples": "sequences", "global_batch": 64}))
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "loss" in line and line["step"] % 10 == 0:
                line["noise_scale"] = None if line["step"] == 200 else line["step"] / 2
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.page("noisy.html", "noisy")
        self.open("noisy.html")
        self.assertEqual(self.data("#noise path[data-run]", "points"), [("19",)])
        self.assertEqual(self.texts("#noise [data-noise]"), ["95 sequences at step 190; twice the batch of 64 would take 70% of the steps "
                                                             "and 1.40 times the sequences to the same loss."])  # fmt: skip
        self.assertEqual(self.browser.problems, [])

    def test_losses_have_a_line_where_a_phase_begins(self):
        folder = write_run(self.folder / "phased", sources=())
        facts = json_of(folder / "run.json")
        phases = [{"from_step": 41, "changes": "global_batch = 16"}, {"from_step": 180, "changes": "weights = []"},
                  {"from_step": 900, "changes": "weights = []"}]  # fmt: skip
        (folder / "run.json").write_text(json.dumps({**facts, "phases": phases}))
        self.page("phased.html", "phased")
        self.open("phased.html")
        self.assertEqual(self.data("#losses line[data-phase]", "phase"), [("41",), ("180",)])
        self.assertEqual(self.browser.problems, [])


class Plans(Pages):
    def plan(self, name, *options):
        """The page of a plan, opened, and what the command printed."""
        command = [TERRACE, "plan", ROOT / "configs/tiny.toml", "--devices", "4", "--set", "layout.pipeline=2", *options, "--report", name]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.open(name)
        return result

    def test_a_plan_says_that_it_fits_what_limits_it_and_what_was_planned(self):
        result = self.plan("plan.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.texts("h1"), [f"{ROOT}/configs/tiny.toml on 4 devices of laptop"])
        self.assertRegex(self.texts('[data-verdict="true"]')[0], r"^Fits: stage [01], the fullest of 2, needs \d.* of \d.*\.$")
        limit = next(line for line in result.stdout.splitlines() if line.startswith("the slowest stage"))
        self.assertIn(limit.partition(": ")[2], self.texts("[data-limit]")[0])
        facts = dict(zip(self.texts("#figures tr:has([data-fact]) td:first-child"), self.texts("[data-fact]"), strict=True))
        self.assertIn("pipeline 2 (1f1b), data 2", facts["layout"])
        self.assertIn("on each of 2 data-parallel ranks", facts["batch"])
        self.assertEqual((facts["precision"], facts["devices"]), ("fp32", "4 devices of laptop"))
        # The command of the page makes the page again.
        (command,) = self.texts("[data-command]")
        again = subprocess.run(["bash", "-c", f"PATH={TERRACE.parent}:$PATH {command}"], capture_output=True, text=True, timeout=60)
        self.assertEqual(again.stdout, result.stdout)
        changes = [line.partition(": ")[2] for line in result.stdout.splitlines() if ": --set " in line]
        self.assertNotEqual(changes, [])
        self.assertEqual(self.texts("[data-change]"), changes)
        self.assertEqual(self.texts("#figures [data-figure=bubble_share]"), [re.search(r"bubble (\S+)", result.stdout)[1]])

    def test_a_plan_warns_of_tensor_groups_that_leave_the_node(self):
        command = [TERRACE, "plan", ROOT / "configs/frontier-22b.toml", "--machine", "frontier", "--devices", "16",
                   "--set", "layout.tensor=16", "--report", "wide.html"]  # fmt: skip
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.open("wide.html")
        (warning,) = [line.removeprefix("warning: ") for line in result.stdout.splitlines() if line.startswith("warning: ")]
        self.assertIn("the groups of 16 tensor ranks leave the node (8 devices)", warning)
        self.assertEqual(self.texts("[data-warning]"), [f"Warning: {warning}."])
        (intensity,) = self.texts('[data-fact="arithmetic intensity"]')
        self.assertIn(f"arithmetic intensity {intensity}\n", result.stdout)
        self.plan("narrow.html")
        self.assertEqual(self.texts("[data-warning]"), [])

    def test_a_plan_that_does_not_fit_says_why_and_what_would_fit(self):
        result = self.plan("large.html", "--set", "model.layers=400", "--set", "model.width=8192")
        self.assertEqual(result.returncode, 3, result.stderr)
        # On a busy machine a line says before it that planning takes long.
        reason = result.stderr.partition("error: ")[2].strip()
        self.assertEqual(self.texts('[data-verdict="false"]'), [f"Does not fit: {reason}."])


class Pointer(Pages):
    def setUp(self):
        self.open("one.html")
        self.canvas = self.box("#timeline canvas")

    def view(self):
        ((begin, end),) = self.data("#timeline canvas", "from", "to")
        return float(begin), float(end)

    def place(self, source, stage, lane, seconds):
        """Where in the window a row is at a time."""
        begin, end = self.view()
        row = self.browser.value("((box) => [box.top, box.height])(document.querySelector("
                                 f"'.label[data-source={source}][data-stage=\"{stage}\"][data-lane=\"{lane}\"]').getBoundingClientRect())")
        return self.canvas[0] + self.canvas[2] * (seconds - begin) / (end - begin), row[0] + row[1] / 2

    def test_hover_names_an_event_with_its_begin_and_its_duration(self):
        for source in ("predicted", "measured"):
            for number, stage in enumerate(json_of(self.run_folder / f"{source}_step.json")["stages"]):
                name, kind, lane, begin, end = stage["events"][2]
                self.browser.mouse("mouseMoved", *self.place(source, number, lane, (begin + end) / 2))
                lines = self.tip().splitlines()
                self.assertEqual(lines[:2], [name, f"{kind}, stage {number}{', node' if lane else ''}, {source}"])
                for line, word, seconds in zip(lines[2:], ("begins at", "lasts"), (begin, end - begin), strict=True):
                    self.assertTrue(line.startswith(word), line)
                    value, unit = line.removeprefix(word).split()
                    self.assertAlmostEqual(float(value.replace(",", "")) * {"s": 1, "ms": 1e-3}[unit], seconds, delta=1e-5)
        self.browser.mouse("mouseMoved", 2, 2)
        self.assertEqual(self.tip(), "")

    def test_wheel_buttons_double_clicks_and_drags_change_what_is_visible(self):
        whole = self.view()
        x, y = self.place("predicted", 0, 0, 0.1)
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100, modifiers=2)
        begin, end = self.view()
        self.assertAlmostEqual(end - begin, (whole[1] - whole[0]) / 2, places=9)
        # The place under the pointer stays there, to a pixel.
        self.assertAlmostEqual(self.place("predicted", 0, 0, 0.1)[0], x, delta=1)
        self.browser.value("document.querySelector('#timeline [aria-label=\"zoom in\"]').click()")
        self.assertAlmostEqual(self.view()[1] - self.view()[0], (whole[1] - whole[0]) / 4, places=9)
        before = self.view()
        self.browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", x + 50, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x + 50, y, button="left", clickCount=1)
        self.assertAlmostEqual(before[0] - self.view()[0], 50 / self.canvas[2] * (before[1] - before[0]), places=6)
        self.browser.value("document.querySelector('#timeline [aria-label=\"whole step\"]').click()")
        self.assertEqual(self.view(), whole)
        for count in (1, 2):
            self.browser.mouse("mousePressed", x, y, button="left", clickCount=count)
            self.browser.mouse("mouseReleased", x, y, button="left", clickCount=count)
        self.assertAlmostEqual(self.view()[1] - self.view()[0], (whole[1] - whole[0]) / 3, places=9)

    def test_a_wheel_without_ctrl_leaves_the_time_as_it_is(self):
        whole = self.view()
        self.browser.mouse("mouseWheel", *self.place("predicted", 0, 0, 0.1), deltaX=0, deltaY=100)
        self.assertEqual(self.view(), whole)

    def test_links_can_be_left_out(self):
        self.browser.value("document.querySelector('#timeline input').click()")
        self.assertEqual(set(self.data("#timeline .label[data-lane]", "lane")), {("0",)})

    def test_events_narrower_than_a_pixel_are_thinned_out(self):
        self.page("thin.html", "long")
        self.open("thin.html")
        rows, width = self.browser.value("((canvas) => [canvas.clientHeight / 11, canvas.clientWidth])(document.querySelector('#timeline canvas'))")
        ((drawn,),) = self.data("#timeline canvas", "drawn")
        self.assertLess(int(drawn), rows * width)
        self.assertGreater(int(drawn), width)

    def test_hover_on_the_other_charts(self):
        left, top, width, height = self.box('#split [data-source="measured"]')
        self.browser.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.assertRegex(self.tip(), r"^products: 17\d ms\n52\.\d%\nstage 0, measured$")
        left, top, width, height = self.box("#memory .hoverable")
        self.browser.mouse("mouseMoved", left + 1, top + height / 2)
        self.assertRegex(self.tip(), r"predicted, rank 0: 6\.00 GiB\nmeasured, rank 0: 6\.00 GiB$")
        left, top, width, height = self.box('#roofline circle[data-operation="attention"]')
        self.browser.mouse("mouseMoved", left + width / 2, top + 1)
        self.assertIn("attention, predicted\n100 FLOP/byte, 40.0 TFLOP/s\n25.0% of the roof", self.tip())
        left, top, width, height = self.box("#losses .hoverable")
        self.browser.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.assertRegex(self.tip(), r"^a, step 100: 4\.\d{3}\nheld out at step 100: 4\.\d{3}$")


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: there is no chromium; tools/setup --test installs it")
        sys.exit(77)
    unittest.main()
