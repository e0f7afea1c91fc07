"""Tests terrace predict with models of fields: a file that xarray opens with means, spreads, labels and each model's values, figures
with the weights of latitudes, layouts, and what is refused."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import xarray as xr

sys.dont_write_bytecode = True
from commands_test import TERRACE, CommandTest, terrace  # noqa: E402
from forecast_test import DAYS, MODEL, WRITE_FIELDS, prepare, python  # noqa: E402
from scipy.special import erf  # noqa: E402

PARTS = DAYS | {"train": ("2001-03-01", "2001-03-08"), "validation": ("2001-03-09", "2001-03-10")}


class PredictFields(CommandTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        python(WRITE_FIELDS, "fields.in", 6, "u", folder=cls.folder)
        prepare(cls.folder, "fields.in", "fields", days=PARTS)
        (cls.folder / "run.toml").write_text(MODEL)
        result = terrace("ensemble", "run.toml", "--seeds", 3, "--ranks", 1, "--output", "three", folder=cls.folder)
        assert result.returncode == 0, result.stderr
        cls.found = cls.predicted("three", "--output", "three.nc")

    @classmethod
    def predict(cls, *arguments, data="fields"):
        return terrace("predict", *arguments, "--data", data, folder=cls.folder)

    @classmethod
    def predicted(cls, *arguments):
        result = cls.predict(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def read(self, name):
        return xr.open_dataset(self.folder / name, decode_timedelta=False).load()

    def fields(self, name):
        """The fields of both outputs at a lead: means, spreads and labels as [starts, latitudes, longitudes] in double precision."""
        made = self.read(name)
        own = {"t_500": made.isel(prediction_timedelta=0, level=0)[["t", "t_std", "t_label"]], "u": made.isel(prediction_timedelta=0)}
        return {output: [one[f"{output[0]}{suffix}"].values.astype("f8") for suffix in ("", "_std", "_label")] for output, one in own.items()}

    def test_xarray_opens_means_spreads_labels_and_members(self):
        made = self.read("three.nc")
        self.assertEqual(sorted(made.data_vars), sorted(f"{name}{suffix}" for name in "tu" for suffix in ("", "_std", "_label", "_1", "_2", "_3")))
        self.assertEqual(made.t_std.dims, ("time", "prediction_timedelta", "level", "latitude", "longitude"))
        self.assertEqual((made.t_std.attrs["units"], made.t_std.attrs["standard_name"]), ("K", "air_temperature standard_error"))
        self.assertEqual((made.t_label.attrs["standard_name"], made.u_2.attrs["long_name"]), ("air_temperature", "model 2: u"))
        self.assertEqual(self.found["starts"], made.sizes["time"])
        for name in "tu":
            members = np.stack([made[f"{name}_{i}"].values for i in (1, 2, 3)]).astype("f8")
            self.assertGreater(members.std(0).min(), 0)
            np.testing.assert_allclose(made[name].values, members.mean(0), rtol=1e-6)
            np.testing.assert_allclose(made[f"{name}_std"].values, members.std(0, ddof=1) * np.sqrt(4 / 3), rtol=1e-6)

    def test_labels_are_what_the_data_have_at_the_valid_times(self):
        made, given = self.read("three.nc"), xr.open_dataset(self.folder / "fields.in").load()
        then = given.sel(time=made.valid_time.values[:, 0])
        np.testing.assert_array_equal(made.t_label.values[:, 0], then.t.values)
        np.testing.assert_array_equal(made.u_label.values[:, 0], then.u.values)

    def test_members_are_the_forecasts_of_each_model(self):
        made = self.read("three.nc")
        starts = made.time.values
        for member in (1, 2, 3):
            result = terrace("forecast", f"three/member_{member}", "--data", "fields", "--starts", str(starts[0])[:19], str(starts[-1])[:19], "6h",
                             "--output", "own.nc", "--overwrite", folder=self.folder)  # fmt: skip
            self.expect(0, result)
            own = self.read("own.nc")
            np.testing.assert_array_equal(own.time.values, starts)
            for name in "tu":
                np.testing.assert_array_equal(made[f"{name}_{member}"].values, own[name].values)

    def test_figures_are_weighted_by_the_cosine_of_the_latitude(self):
        weights = np.cos(np.radians(self.read("three.nc").latitude.values))[None, :, None]
        shares = np.linspace(0, 1, 100)
        for output, (mean, spread, label) in self.fields("three.nc").items():
            of = self.found["outputs"][output]
            for own, scale in ((of, 1), (of["scaled"], of["scale"])):
                error, deviation = mean - label, scale * spread
                every = np.broadcast_to(weights, error.shape)
                average = lambda values: np.average(values, weights=every)  # noqa: E731
                inside = erf(np.abs(error) / deviation / np.sqrt(2))
                gaps = np.array([average(inside <= share) for share in shares]) - shares
                # The area between lines, of which some cross the diagonal.
                fine = np.interp(np.linspace(0, 1, 990001), shares, gaps)
                expected = {"mae": average(np.abs(error)), "rmse": np.sqrt(average(error**2)), "sharpness": np.sqrt(average(deviation**2)),
                            "nll": average((np.log(2 * np.pi * deviation**2) + (error / deviation) ** 2) / 2),
                            "miscalibration_area": np.abs(fine).mean()}  # fmt: skip
                self.assertEqual(own["count"], error.size)
                # Means and spreads in the file are rounded to fp32.
                for name, value in expected.items():
                    self.assertAlmostEqual(own[name] / value, 1, delta=1e-3 if name == "miscalibration_area" else 1e-4, msg=f"{output} {name}")
            self.assertLess(of["scaled"]["miscalibration_area"], of["miscalibration_area"])
            self.assertEqual(of["spearman"], of["scaled"]["spearman"])

    def test_the_error_is_that_of_terrace_score(self):
        result = terrace("score", "three.nc", "--data", "fields", "--variables", "t_500,u", "--json", folder=self.folder)
        scored = json.loads(self.expect(0, result).stdout)
        for output in ("t_500", "u"):
            self.assertAlmostEqual(self.found["outputs"][output]["rmse"] / scored["variables"][output]["rmse_weatherbench1"], 1, places=5)

    def test_one_model_has_no_spread(self):
        found = self.predicted("three/member_2", "--output", "one.nc")
        made = self.read("one.nc")
        self.assertEqual(sorted(made.data_vars), ["t", "t_label", "u", "u_label"])
        np.testing.assert_array_equal(made.u.values, self.read("three.nc").u_2.values)
        self.assertIsNone(found["outputs"]["u"]["miscalibration_area"])
        self.assertNotIn("scale", found["outputs"]["u"])

    def test_several_leads_are_judged_each(self):
        found = self.predicted("three", "--lead", "18h", "--rollout", "6h", "--output", "leads.nc")
        self.assertEqual(list(found["leads"]), ["6h", "12h", "18h"])
        self.assertNotIn("outputs", found)
        self.assertEqual(self.read("leads.nc").sizes["prediction_timedelta"], 3)
        # Starts of longer leads lie before the part, so that their forecasts of shorter leads do not count.
        self.assertEqual(found["leads"]["6h"]["outputs"], self.found["outputs"])
        counts = {lead["outputs"]["u"]["count"] for lead in found["leads"].values()}
        self.assertEqual(counts, {self.found["outputs"]["u"]["count"]})

    def test_ranks_give_the_same_file(self):
        self.predicted("three", "--output", "ranks.nc", "--ranks", 2)
        self.assertTrue(self.read("ranks.nc").equals(self.read("three.nc")))

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_processes_of_a_launcher_write_the_same_file_and_report_a_mistake_once(self):
        def launched(source, output):
            command = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", TERRACE, "predict", source, "--data", "fields", "--output", output]
            allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
            return subprocess.run(command, cwd=self.folder, env=os.environ | allowed, capture_output=True, text=True, timeout=300)

        self.assertEqual(self.expect(0, launched("three", "mpi.nc")).stdout.count("predicted"), 1)
        self.assertTrue(self.read("mpi.nc").equals(self.read("three.nc")))
        for source, output, words in (("three", "mpi.nc", "mpi.nc exists"), ("nothing", "no.nc", "there is no folder nothing")):
            result = launched(source, output)
            self.assertEqual((result.returncode, result.stderr.count(words)), (2, 1), result.stderr)

    def test_without_a_validation_part_no_scale_is_fitted(self):
        prepare(self.folder, "fields.in", "two_parts", days={part: PARTS[part] for part in ("train", "test")})
        result = self.expect(0, self.predict("three", "--output", "two_parts_out.nc", "--json", data="two_parts"))
        self.assertNotIn("scale", json.loads(result.stdout)["outputs"]["u"])
        self.assertNotIn("scale", self.predicted("three", "--split", "train", "--output", "train.nc")["outputs"]["u"])

    def test_the_text_has_the_figures(self):
        text = self.expect(0, self.predict("three", "--output", "text.nc")).stdout
        self.assertIn("of the test part of fields by 3 models: text.nc\n6h ahead\nt_500: mae ", text)
        self.assertIn("  spread: miscalibration area ", text)

    def test_mistakes_are_refused_and_leave_nothing(self):
        before = sorted(self.folder.iterdir())
        self.expect(2, self.predict("three"), "--output predicted.nc")
        for option in (("--csv", "a.csv"), ("--page", "a.html"), ("--dataset", "a"), ("--split", "all")):
            self.expect(2, self.predict("three", "--output", "no.nc", *option), option[0], "three/member_1 forecasts fields")
        self.expect(2, self.predict("three", "--output", "missing/no.nc"), "missing does not exist")
        self.expect(2, self.predict("three", "--output", "three.nc"), "three.nc exists", "--overwrite")
        self.expect(2, self.predict("three", "--output", "no.nc", "--lead", "7h"), "7h")
        self.expect(2, self.predict("three", "--output", "no.nc", data="nothing"), "nothing")
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_models_of_other_outputs_are_refused(self):
        (self.folder / "other.toml").write_text(MODEL.replace('outputs = ["t_500", "u"]', 'outputs = ["u"]').replace("steps = 12", "steps = 1"))
        self.expect(0, terrace("train", "other.toml", "--set", "checkpoint.folder=other", folder=self.folder))
        self.expect(2, self.predict("three/member_1", "other", "--output", "no.nc"), "predicts t_500, u, and", "have the same outputs")
        self.assertEqual([path for path in self.folder.iterdir() if "no.nc" in path.name], [])


if __name__ == "__main__":
    unittest.main()
