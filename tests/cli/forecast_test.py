"""Tests terrace forecast and terrace score as a shell sees them: files that xarray opens, scores that agree with terrace evaluate,
layouts, forecasts in steps, pages and what is refused."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402

PYTHON = SOURCE / ".deps/python/bin/python"

MODEL = """[model]
family = "vit"
variables = ["t_500", "u"]
outputs = ["t_500", "u"]
grid = [6, 8]
patch = 2
layers = 2
width = 16
heads = 2
lead_embedding = false
predicts = "change"
[data]
fields = "fields"
leads = ["6h"]
constants = ["height"]
[train]
global_batch = 4
micro_batch = 4
steps = 12
seed = 1
evaluate_every = 0
threads = 1
[optimizer]
learning_rate = 3e-3
[checkpoint]
folder = "run"
"""

# Six-hourly fields of 20 days; the arguments are the file, the number of latitudes and the name of a variable.
WRITE_FIELDS = """
import sys
import numpy as np
import xarray as xr
path, rows, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
time, row, column = np.meshgrid(np.arange(80), np.arange(rows), np.arange(8), indexing="ij")
t = 280 + 8 * np.sin(0.3 * time + 0.8 * column) + row
u = 5 * np.cos(0.2 * time - 0.8 * column) * (1 + row)
made = xr.Dataset({"t": (("time", "level", "lat", "lon"), t[:, None].astype("f4"), {"units": "K", "standard_name": "air_temperature"}),
                   name: (("time", "lat", "lon"), u.astype("f4"), {"units": "m s**-1", "standard_name": "eastward_wind"}),
                   "height": (("lat", "lon"), row[0].astype("f4"), {"units": "m"})},
                  {"time": ("time", 6 * np.arange(80), {"units": "hours since 2001-03-01"}), "level": ("level", [500.0], {"units": "hPa"}),
                   "lat": ("lat", np.linspace(-75, 75, rows), {"units": "degrees_north"}),
                   "lon": ("lon", 45.0 * np.arange(8), {"units": "degrees_east"})})
made.to_netcdf(path)
"""

# Prints the contents of a file of forecasts as JSON.
READ_FORECASTS = """
import json
import sys
import xarray as xr
made = xr.open_dataset(sys.argv[1], decode_timedelta=True)
print(json.dumps({"sizes": dict(made.sizes), "names": sorted(made.data_vars), "start": str(made.time.values[0])[:13],
                  "hours": [float(lead) / 3.6e12 for lead in made.prediction_timedelta.values.astype("timedelta64[ns]").astype("i8")],
                  "valid": str(made.valid_time.values[0, -1])[:13], "latitude": made.latitude.values.tolist(),
                  "longitude": made.longitude.values.tolist(), "units": made.u.attrs, "level": made.level.attrs,
                  "u": made.u.values.tolist(), "t": made.t.values.tolist()}))
"""

# A file of fields with the forecasts of the first lead, at the times that they are for.
FIELDS_OF_FORECASTS = """
import sys
import xarray as xr
forecast, fields = xr.open_dataset(sys.argv[1], decode_timedelta=False), xr.open_dataset(sys.argv[2], decode_times=False)
first = forecast.isel(prediction_timedelta=0)
made = fields.isel(time=slice(41, 41 + first.sizes["time"])).copy(deep=True)
for name in ("t", "u"):
    made[name].values[:] = first[name].values
made.to_netcdf(sys.argv[3])
"""

DAYS = {"train": ("2001-03-01", "2001-03-10"), "test": ("2001-03-11", "2001-03-20")}


def python(program, *arguments, folder):
    result = subprocess.run([PYTHON, "-c", program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def prepare(folder, source, prefix, *more, days=DAYS):
    flags = [word for split, dates in days.items() for word in (f"--{split}", *dates)]
    result = terrace("data", "prepare", source, "--kind", "fields", "--output", prefix, *flags, *more, folder=folder)
    assert result.returncode == 0, result.stderr


class Forecasting(CommandTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        python(WRITE_FIELDS, "fields.in", 6, "u", folder=cls.folder)
        prepare(cls.folder, "fields.in", "fields")
        (cls.folder / "run.toml").write_text(MODEL)
        result = terrace("train", "run.toml", folder=cls.folder)
        assert result.returncode == 0, result.stderr

    def run_here(self, *arguments):
        return terrace(*arguments, folder=self.folder)

    def train(self, name, *arguments):
        self.expect(0, self.run_here("train", "run.toml", "--set", f"checkpoint.folder={name}", *arguments))

    def forecast(self, output, *arguments, run="run", fields="fields"):
        result = self.run_here("forecast", run, "--data", fields, *arguments, "--output", output, "--overwrite", "--json")
        return json.loads(self.expect(0, result).stdout)

    def read(self, output):
        return json.loads(python(READ_FORECASTS, output, folder=self.folder))

    def score(self, source, *arguments):
        return json.loads(self.expect(0, self.run_here("score", source, "--data", "fields", *arguments, "--json")).stdout)

    def assert_close(self, a, b, largest):
        """Nested lists of numbers."""
        if isinstance(a, list):
            self.assertEqual(len(a), len(b))
            for one, other in zip(a, b, strict=True):
                self.assert_close(one, other, largest)
        elif not (math.isnan(a) and math.isnan(b)):
            self.assertLessEqual(abs(a - b), largest)


class Files(Forecasting):
    def test_xarray_opens_a_file_with_the_coordinates_of_cf(self):
        said = self.forecast("two.nc", "--start", "2001-03-12T18", "--start", "2001-03-11T06", "--lead", "6h")
        self.assertEqual(said["starts"], ["2001-03-11T06:00:00", "2001-03-12T18:00:00"])
        self.assertEqual((said["file"], said["leads"], said["variables"], said["step"]), ("two.nc", ["6h"], ["t_500", "u"], 12))
        made = self.read("two.nc")
        self.assertEqual(made["sizes"], {"time": 2, "prediction_timedelta": 1, "level": 1, "latitude": 6, "longitude": 8})
        self.assertEqual((made["names"], made["hours"]), (["t", "u"], [6.0]))
        self.assertEqual((made["start"], made["valid"]), ("2001-03-11T06", "2001-03-11T12"))
        self.assertEqual(made["latitude"], [-75.0, -45.0, -15.0, 15.0, 45.0, 75.0])
        self.assertEqual(made["longitude"], [45.0 * i for i in range(8)])
        self.assertEqual((made["units"]["units"], made["units"]["standard_name"]), ("m s**-1", "eastward_wind"))
        self.assertEqual(made["level"]["units"], "hPa")

    def test_a_start_beyond_the_last_target_of_the_data_is_forecast(self):
        self.forecast("last.nc", "--start", "2001-03-20T18")
        self.assertEqual(self.read("last.nc")["valid"], "2001-03-21T00")

    def test_many_starts_in_one_call(self):
        said = self.forecast("many.nc", "--starts", "2001-03-11", "2001-03-12", "12h")
        self.assertEqual(len(said["starts"]), 4)
        one = self.forecast("one.nc", "--start", "2001-03-11T12")
        self.assertEqual(one["starts"], said["starts"][1:2])
        self.assert_close(self.read("one.nc")["u"][0], self.read("many.nc")["u"][1], 1e-4)

    def test_the_forecast_is_the_same_at_other_layouts(self):
        self.train("pipeline", "--ranks", 2, "--set", "layout.pipeline=2")
        self.train("tensor", "--ranks", 4, "--set", "layout.tensor=2", "--set", "layout.sharding=zero3", "--set", "train.micro_batch=2")
        for run, ranks in (("pipeline", 2), ("tensor", 4), ("run", 3)):
            self.forecast("one.nc", "--starts", "2001-03-11", "2001-03-13", "6h", run=run)
            self.forecast("cut.nc", "--starts", "2001-03-11", "2001-03-13", "6h", "--ranks", ranks, run=run)
            one, cut = self.read("one.nc"), self.read("cut.nc")
            self.assertEqual(one["sizes"]["time"], 12)
            self.assert_close(one["u"], cut["u"], 2e-4)
            self.assert_close(one["t"], cut["t"], 2e-4)

    def test_a_file_that_is_too_large_is_refused_with_numbers_and_leaves_nothing(self):
        arguments = "forecast run --data fields --starts 2001-03-11 2001-03-20 6h --output large.nc"
        # 40 starts of two fields of 48 numbers; the shell counts the limit in KiB.
        result = subprocess.run(["bash", "-c", f"ulimit -f 8; exec {TERRACE} {arguments}"], cwd=self.folder, capture_output=True, text=True,
                                timeout=300)
        self.expect(2, result, "large.nc takes 15.0 KiB, and the limit on the size of files is 8.0 KiB")
        self.assertEqual([path.name for path in self.folder.glob("*large*")], [])

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun; tools/setup installs it")
    def test_processes_write_one_file_and_all_know_of_a_mistake(self):
        launch = lambda *more: subprocess.run(
            ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", TERRACE, "forecast", "run", "--data", "fields", "--starts", "2001-03-11",
             "2001-03-12", "6h", "--output", "processes.nc", *more], cwd=self.folder, capture_output=True, text=True, timeout=300,
            env=os.environ | {"OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual(json.loads(self.expect(0, launch("--json")).stdout)["leads"], ["6h"])
        self.forecast("one.nc", "--starts", "2001-03-11", "2001-03-12", "6h")
        self.assert_close(self.read("processes.nc")["u"], self.read("one.nc")["u"], 2e-4)
        refused = self.expect(2, launch("--overwrite", "--lead", "7h"), "--lead 7h is no multiple")
        self.assertEqual(refused.stderr.count("error: "), 1)

    def test_a_rollout_feeds_the_forecast_back(self):
        self.train("damped", "--set", "model.predicts=damped_anomaly")
        for run in ("run", "damped"):
            self.forecast("rolled.nc", "--starts", "2001-03-11", "2001-03-11", "6h", "--lead", "12h", "--rollout", "6h", run=run)
            rolled = self.read("rolled.nc")
            self.assertEqual(rolled["hours"], [6.0, 12.0])
            self.forecast("first.nc", "--starts", "2001-03-11", "2001-03-11", "6h", run=run)
            # The predicted fields become data of their own.
            python(FIELDS_OF_FORECASTS, "first.nc", "fields.in", f"{run}_predicted.in", folder=self.folder)
            prepare(self.folder, f"{run}_predicted.in", f"{run}_predicted", days={})
            self.forecast("second.nc", "--starts", "2001-03-11T06", "2001-03-12T00", "6h", fields=f"{run}_predicted", run=run)
            second = self.read("second.nc")
            for name in ("t", "u"):
                for start in range(4):
                    self.assert_close(second[name][start][0], rolled[name][start][1], 2e-4)

    def test_what_does_not_fit_is_refused(self):
        forecast = lambda *more, run="run", fields="fields": self.run_here("forecast", run, "--data", fields, "--output", "no.nc", *more)
        at = ("--start", "2001-03-11T06")
        self.expect(2, forecast("--start", "2001-04-01T06"), "--start 2001-04-01T06: fields has 80 times from 2001-03-01T00:00:00 to "
                    "2001-03-20T18:00:00, every 6 h")
        self.expect(2, forecast("--start", "2001-03-11"), "means 4 times of fields", "with --starts")
        self.expect(2, forecast("--start", "tomorrow"), "\"tomorrow\" is no date")
        self.expect(2, forecast(), "no start is given; use --start or --starts")
        self.expect(2, forecast(*at, "--lead", "7h"), "--lead 7h is no multiple, from 6h on, of the 6 h")
        self.expect(2, forecast(*at, "--lead", "12h"), "the model was trained for the lead 6h, not 12h", "--rollout 6h")
        self.expect(2, forecast(*at, "--lead", "12h", "--rollout", "9h"), "--rollout 9h is no multiple")
        self.expect(2, forecast("--starts", "2001-03-11", "2001-03-12", "5h"), "5h is no multiple of the 6 h")
        self.expect(2, forecast("--start", "2002", "--lead", "12h"), "2 problems with the starts and leads", "--start 2002", "--lead 12h")
        self.expect(2, forecast(*at, fields="nothing"), "nothing.json does not exist")
        self.expect(2, forecast(*at, run="nowhere"), "nowhere")
        self.expect(2, self.run_here("forecast", "run", "--data", "fields", *at, "--output", "a/b/no.nc"), "the folder a/b does not exist")
        self.expect(2, self.run_here("forecast", "run", "--data", "fields", *at, "--output", "fields.nc"), "fields.nc exists", "--overwrite")
        said = self.run_here("forecast", "run", "--data", "fields", *at, "--output", "no.nc", "--lead", "7h", "--json")
        self.assertEqual(json.loads(self.expect(2, said).stdout)["exit_code"], 2)
        self.assertEqual([path.name for path in self.folder.glob("*no.nc*")], [])

    def test_data_that_are_not_those_of_the_checkpoint_are_refused(self):
        forecast = lambda fields: self.run_here("forecast", "run", "--data", fields, "--output", "no.nc", "--start", "2001-03-11T06")
        python(WRITE_FIELDS, "wide.in", 8, "u", folder=self.folder)
        prepare(self.folder, "wide.in", "wide")
        self.expect(2, forecast("wide"), "the model has a grid of 6 x 8 places, and wide has one of 8 x 8")
        python(WRITE_FIELDS, "other.in", 6, "v", folder=self.folder)
        prepare(self.folder, "other.in", "other")
        self.expect(2, forecast("other"), "other has no variable u")
        prepare(self.folder, "fields.in", "knots", "--units", "u=km/s")
        self.expect(2, forecast("knots"), "knots has u in km/s, and the model was trained with m s**-1")

    def test_inputs_before_the_start_must_be_there(self):
        self.train("earlier", "--set", "data.inputs=3")
        self.expect(2, self.run_here("forecast", "earlier", "--data", "fields", "--start", "2001-03-01T06", "--output", "no.nc"),
                    "the model reads 3 times", "the first possible start is 2001-03-01T12:00:00")
        self.forecast("history.nc", "--start", "2001-03-11T06", "--lead", "18h", "--rollout", "6h", run="earlier")
        self.assertEqual(self.read("history.nc")["hours"], [6.0, 12.0, 18.0])

    def test_a_rollout_needs_every_input_among_the_outputs(self):
        self.train("partial", "--set", 'model.outputs=["u"]')
        self.expect(2, self.run_here("forecast", "partial", "--data", "fields", "--start", "2001-03-11T06", "--lead", "12h", "--rollout",
                                     "6h", "--output", "no.nc"), "the model reads t_500 and does not predict it")
        self.assertEqual(self.forecast("partial.nc", "--start", "2001-03-11T06", run="partial")["variables"], ["u"])

    def test_models_of_text_make_no_forecasts(self):
        prepare_corpus(self.folder)
        (self.folder / "text.toml").write_text(TINY.replace('folder = "run"', 'folder = "text"'))
        self.expect(0, self.run_here("train", "text.toml"))
        for command in (("forecast", "text", "--data", "fields", "--start", "2001", "--output", "no.nc"), ("score", "text", "--data", "fields")):
            self.expect(2, self.run_here(*command), 'models of model.family = "gpt" forecast no fields; use terrace evaluate or generate')


# Copies the fields, with land in the third row, which has no values.
LAND = """
import sys
import xarray as xr
made = xr.open_dataset(sys.argv[1], decode_times=False).load()
for name in ("t", "u"):
    made[name].values[..., 2, 1:5] = float("nan")
made.to_netcdf(sys.argv[2])
"""

# A file of forecasts whose starts are those of the arguments; "nan": every second one without values.
CHANGED_STARTS = """
import sys
import xarray as xr
made = xr.open_dataset(sys.argv[1], decode_timedelta=False).load()
made = made.isel(time=[int(word) for word in sys.argv[3].split(",")])
if "nan" in sys.argv:
    made["u"].values[::2] = float("nan")
    made["u"].values[1, 0, 2, 3] = float("nan")
if "other" in sys.argv:
    made["u"].values[-1, 0, 0, 0] += 1
made.to_netcdf(sys.argv[2])
"""


class Land(Forecasting):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        python(LAND, "fields.in", "land.in", folder=cls.folder)
        prepare(cls.folder, "land.in", "land", "--mask")

    def assert_land(self, field):
        for row, values in enumerate(field):
            for column, value in enumerate(values):
                self.assertEqual(math.isnan(value), row == 2 and 1 <= column < 5, (row, column))

    def test_stays_missing_at_every_lead_and_is_no_input_of_later_steps(self):
        self.train("land", "--set", "data.fields=land")
        self.train("land_damped", "--set", "data.fields=land", "--set", "model.predicts=damped_anomaly")
        for run in ("land", "land_damped"):
            days = ("--starts", "2001-03-11", "2001-03-11", "6h")
            self.forecast("rolled.nc", *days, "--lead", "18h", "--rollout", "6h", run=run, fields="land")
            rolled = self.read("rolled.nc")
            for name in ("t", "u"):
                for start in range(4):
                    for lead in range(3):
                        self.assert_land(rolled[name][start][lead] if name == "u" else rolled[name][start][lead][0])
            self.forecast("first.nc", *days, run=run, fields="land")
            python(FIELDS_OF_FORECASTS, "first.nc", "land.in", f"{run}_predicted.in", folder=self.folder)
            prepare(self.folder, f"{run}_predicted.in", f"{run}_predicted", "--mask", days={})
            self.forecast("second.nc", "--starts", "2001-03-11T06", "2001-03-12T00", "6h", fields=f"{run}_predicted", run=run)
            second = self.read("second.nc")
            for name in ("t", "u"):
                for start in range(4):
                    self.assert_close(second[name][start][0], rolled[name][start][1], 2e-4)
        # Every place of the data has a forecast, so nothing but places without a truth is left out.
        scored = json.loads(self.expect(0, self.run_here("score", "land", "--lead", "12h", "--rollout", "6h", "--strict", "--json")).stdout)
        for figures in scored["leads"]["12h"]["variables"].values():
            starts = scored["leads"]["12h"]["starts"]
            self.assertEqual((figures["fields_left_out"], figures["places_left_out"], figures["places_without_truth"]), (0, 0, 4 * starts))


class Scores(Forecasting):
    def test_say_what_a_file_lacks_and_fail_where_that_is_asked(self):
        self.forecast("whole.nc", "--starts", "2001-03-12", "2001-03-13", "6h")
        python(CHANGED_STARTS, "whole.nc", "half.nc", "0,1,2,3,4,5,6,7", "nan", folder=self.folder)
        result = self.run_here("score", "half.nc", "--data", "fields", "--json")
        figures = json.loads(self.expect(0, result, "u 6h ahead: 4 of 8 fields have no place to compare, 193 places of the data lack a "
                                         "forecast", "--strict").stdout)["variables"]
        self.assertEqual((figures["u"]["fields_left_out"], figures["u"]["places_left_out"]), (4, 4 * 48 + 1))
        self.assertEqual((figures["t_500"]["fields_left_out"], figures["t_500"]["places_left_out"]), (0, 0))
        self.assertIn("Left out of u: 4 of 8 fields", self.run_here("score", "half.nc", "--data", "fields").stdout)
        self.expect(2, self.run_here("score", "half.nc", "--data", "fields", "--strict"), "half.nc lacks values: u 6h ahead: 4 of 8 fields")
        # The other half alone has the same scores but for persistence.
        python(CHANGED_STARTS, "half.nc", "known.nc", "1,3,5,7", folder=self.folder)
        for name, value in self.score("known.nc", "--variables", "u")["variables"]["u"].items():
            if name in ("rmse", "rmse_weatherbench1", "rmse_weatherbench2", "acc", "bias"):
                self.assertEqual(value, figures["u"][name], name)

    def test_count_a_start_that_is_given_twice_once(self):
        self.forecast("whole.nc", "--starts", "2001-03-12", "2001-03-13", "6h")
        python(CHANGED_STARTS, "whole.nc", "once.nc", "0,1,2", folder=self.folder)
        python(CHANGED_STARTS, "whole.nc", "twice.nc", "0,1,2,1", folder=self.folder)
        python(CHANGED_STARTS, "whole.nc", "differ.nc", "0,1,2,1", "other", folder=self.folder)
        self.assertEqual(self.score("twice.nc")["leads"], self.score("once.nc")["leads"])
        self.expect(0, self.run_here("score", "twice.nc", "--data", "fields"), "gives 1 of its 4 starts twice, with the same forecasts; they count once")
        self.expect(2, self.run_here("score", "twice.nc", "--data", "fields", "--strict"), "without --strict they count once")
        self.expect(2, self.run_here("score", "differ.nc", "--data", "fields"),
                    "has two forecasts of u from the time 2001-03-12T06:00:00 of fields: as start 2, 2001-03-12T06:00:00, and as start 4")

    def test_agree_with_those_of_evaluate(self):
        self.train("anomalies", "--set", "model.predicts=anomaly")
        for run in ("run", "anomalies"):
            evaluated = json.loads(self.expect(0, self.run_here("evaluate", run, "--data", "fields", "--json")).stdout)
            scored = self.score(run)
            self.assertEqual((scored["split"], scored["lead"], scored["leads"]["6h"]["starts"]), ("test", "6h", 40))
            described = json.loads((self.folder / "fields.json").read_text())
            for variable in described["variables"]:
                for figure in ("rmse", "bias"):
                    expected = evaluated[f"{figure}_{variable['name']}"] * variable["deviation"]
                    self.assertAlmostEqual(scored["variables"][variable["name"]][figure], expected, delta=2e-5 * variable["deviation"])

    def test_of_a_file_are_those_of_the_checkpoint_that_wrote_it(self):
        self.forecast("test.nc", "--starts", "2001-03-10T12", "2001-03-20", "6h", "--lead", "12h", "--rollout", "6h")
        of_file = self.score("test.nc")
        self.assertEqual(of_file["leads"], self.score("run", "--lead", "12h", "--rollout", "6h")["leads"])
        self.assertEqual(list(of_file["leads"]), ["6h", "12h"])
        self.assertNotIn("variables", of_file)
        self.assertEqual(self.score("test.nc", "--lead", "12h", "--variables", "u")["variables"], {"u": of_file["leads"]["12h"]["variables"]["u"]})

    def test_are_written_as_csv_and_shown_in_a_table(self):
        result = self.expect(0, self.run_here("score", "run", "--csv", "scores.csv"))
        for text in ("6h ahead, 40 starts of the test part of fields", "u [m s**-1]", "persistence", "damped"):
            self.assertIn(text, result.stdout)
        header, first, second = (self.folder / "scores.csv").read_text().splitlines()
        row = dict(zip(header.split(","), first.split(","), strict=True))
        self.assertEqual((row["lead"], row["hours"], row["starts"], row["variable"]), ("6h", "6", "40", "t_500"))
        self.assertEqual(float(row["rmse"]), self.score("run")["variables"]["t_500"]["rmse"])
        self.assertEqual(second.split(",")[3], "u")

    def test_of_ranks_agree_with_those_of_one(self):
        one, two = self.score("run")["variables"], self.score("run", "--ranks", 2)["variables"]
        for name in one:
            self.assertAlmostEqual(one[name]["rmse"], two[name]["rmse"], delta=1e-5 * one[name]["rmse"])

    def test_that_cannot_be_made_are_refused(self):
        self.forecast("march.nc", "--start", "2001-03-03T00")
        score = lambda *arguments: self.run_here("score", *arguments)
        self.expect(2, score("march.nc"), "march.nc is scored against prepared fields; name them with --data")
        self.expect(2, score("march.nc", "--data", "fields"), "none of the 1 start of march.nc", "predicts a time of the test part of fields")
        self.expect(2, score("march.nc", "--data", "fields", "--rollout", "6h"), "has forecasts already; leave it out")
        self.expect(2, score("run", "--split", "validation"), "fields has no validation part; prepare it with --validation FROM TO")
        self.expect(2, score("run", "--variables", "w"), "--variables w: the model does not predict it")
        self.expect(2, score("run", "--csv", "a/b.csv"), "the folder a does not exist")
        self.expect(2, score("fields.nc", "--data", "fields"), "fields.nc holds no forecasts")
        self.expect(2, score("run", "--page", "p.html", "--map-start", "2001-03-02T06"), "no scored forecast begins then; they begin from")
        self.expect(2, score("nowhere"), "nowhere")


if __name__ == "__main__":
    unittest.main()
