"""bench/atmosphere/run.py trains both programs on fields that are there, and judges their forecasts in the same way."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import netCDF4
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TERRACE = pathlib.Path(sys.argv.pop()).resolve()
LATITUDES, LONGITUDES, LEVELS = np.array([-75.0, -45, -15, 15, 45, 75]), np.arange(0, 360, 30), 8
# Days since 2001 with which the parts for validation and for the test begin.
VALIDATION, TEST = 1200, 1350
TIMES = 24 * (VALIDATION - 30) + 6 * np.arange(4 * (30 + TEST - VALIDATION + 30))


def write_fields(path):
    """Waves that move and decay, with noise, on a small grid, with the names that make_fields.py writes."""
    random = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w") as file:
        axes = {"time": (TIMES, "hours since 2001-01-01"), "level": (np.arange(1, LEVELS + 1), "1"),
                "latitude": (LATITUDES, "degrees_north"), "longitude": (LONGITUDES, "degrees_east")}  # fmt: skip
        for name, (values, units) in axes.items():
            file.createDimension(name, len(values))
            file.createVariable(name, "f8", (name,))[:] = values
            file[name].units = units
        file["time"].calendar, file["level"].standard_name, file["level"].axis = "noleap", "model_level_number", "Z"
        wave = np.cos(np.deg2rad(LONGITUDES - TIMES[:, None]))[:, None, :]
        for name, units in {"u": "m s-1", "v": "m s-1", "t": "K", "ps": "Pa"}.items():
            noise = random.normal(size=(len(TIMES), LEVELS, len(LATITUDES), len(LONGITUDES)))
            values = 10 * wave[:, None] + noise + LATITUDES[:, None]
            dimensions = ("time", "latitude", "longitude") if name == "ps" else ("time", "level", "latitude", "longitude")
            file.createVariable(name, "f4", dimensions)[:] = values[:, 0] if name == "ps" else values
            file[name].units = units


def cells_of(text, first):
    """The cells of the table's row that begins with a word."""
    row = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in row.split("|")[1:-1]]


class Atmosphere(unittest.TestCase):
    def test_untrained_networks_of_both_have_the_error_of_half_the_anomaly(self):
        with tempfile.TemporaryDirectory() as folder:
            write_fields(f"{folder}/fields.nc")
            settings = ["model.grid=[6,12]", "model.patch=3", "model.layers=1", "model.width=24", "model.heads=2", "train.steps=1",
                        "train.evaluate_every=1", "optimizer.warmup_steps=0", "optimizer.learning_rate=1e-12",
                        f"checkpoint.folder={folder}/run"]  # fmt: skip
            command = [sys.executable, ROOT / "bench/atmosphere/run.py", "--terrace", TERRACE, "--threads", "1", "--data", folder,
                       "--seconds", "0", "--output", f"{folder}/result.md", *settings]  # fmt: skip
            result = subprocess.run(command, capture_output=True, text=True, timeout=300)
            text = result.stdout
            self.assertIn("# A simulated atmosphere", text, result.stderr)
            self.assertEqual(result.returncode, 1)  # nothing was learned
            self.assertEqual(pathlib.Path(f"{folder}/result.md").read_text(), text[:-1])
            with netCDF4.Dataset(f"{folder}/fields.nc") as file:
                fields = np.asarray(file["ps"][:], np.float64)
            climatology = fields[TIMES < 24 * VALIDATION].mean(0)
            targets = np.flatnonzero(TIMES >= 24 * TEST)
            starts = targets - 12
            weights = np.cos(np.deg2rad(LATITUDES))[:, None] / np.cos(np.deg2rad(LATITUDES)).mean()
            half = climatology + (fields[starts] - climatology) / 2

            def error(forecast):
                return np.sqrt(((forecast - fields[targets]) ** 2 * weights).mean((1, 2))).mean()

            cells = cells_of(text, "ps")
            self.assertAlmostEqual(float(cells[1]), error(climatology), delta=1e-3 * error(climatology))
            self.assertAlmostEqual(float(cells[2]), error(fields[starts]), delta=1e-3 * error(fields[starts]))
            # The head's output begins with about 1e-3 deviations.
            for own in (cells[3], cells[6]):
                self.assertAlmostEqual(float(own), error(half), delta=0.01 * error(half))
            self.assertEqual(cells_of(text, "over PyTorch")[1], "1.0")


if __name__ == "__main__":
    unittest.main()
