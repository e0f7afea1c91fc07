"""Scores forecasts with numpy and xarray alone, from the files that the program reads.

Usage: fields_score_cases.py write F.nc OTHER.nc, which writes the forecasts as WeatherBench 1 has them, or
fields_score_cases.py score P F.nc SPLIT STEP_HOURS, which prints the scores as terrace score --json has them
"""
import json
import sys

import numpy as np
import xarray as xr


def weighted(values, weights):
    """The mean over latitude and longitude of the places that have a value, [times]."""
    weights = np.broadcast_to(weights[None, :, None], values.shape)
    has = ~np.isnan(values)
    return np.where(has, weights * values, 0).sum((1, 2)) / np.where(has, weights, 0).sum((1, 2))


def anomaly_correlation(a, b, weights):
    has = ~np.isnan(a * b)
    total = lambda x: np.where(has, weights[None, :, None] * x, 0).sum((1, 2))  # noqa: E731
    return (total(a * b) / np.sqrt(total(a * a) * total(b * b))).mean()


def areas(latitude):
    bounds = np.concatenate([[-np.pi / 2], (latitude[:-1] + latitude[1:]) / 2, [np.pi / 2]])
    area = np.sin(bounds[1:]) - np.sin(bounds[:-1])
    return area / area.mean()


class Truth:
    def __init__(self, prefix, split):
        self.described = json.loads(open(prefix + ".json").read())
        made = xr.open_dataset(prefix + ".nc")
        self.names = [str(name) for name in made["variable"].values]
        self.fields = made["fields"].values.astype("f8")
        self.climatology = made["climatology"].values.astype("f8")
        self.times = made.time.values
        self.months = made.time.dt.month.values - 1
        radians = np.deg2rad(made.latitude.values)
        self.cosine = np.cos(radians) / np.cos(radians).mean()
        self.area = areas(radians)
        self.split = self.described["splits"][split]
        self.train = self.described["splits"]["train"]

    def anomaly(self, times, variable):
        return self.fields[times, variable] - self.climatology[self.months[times], variable]

    def damping(self, variable, lead):
        starts = np.arange(self.train["first_time"], self.train["end_time"] - lead)
        a, b = self.anomaly(starts, variable), self.anomaly(starts + lead, variable)
        has = ~np.isnan(a * b)
        total = lambda x: np.where(has, self.cosine[None, :, None] * x, 0).sum()  # noqa: E731
        return total(a * b) / total(a * a)


def scores(truth, forecast, variable, starts, lead):
    """`forecast` is [starts, latitude, longitude]."""
    happened, before = truth.fields[starts + lead, variable], truth.fields[starts, variable]
    climatology = truth.climatology[truth.months[starts + lead], variable]
    damping = truth.damping(variable, lead)
    square = lambda x: weighted((x - happened) ** 2, truth.cosine)  # noqa: E731
    return {
        "rmse": np.sqrt(square(forecast)).mean(),
        "rmse_weatherbench1": np.sqrt(square(forecast).mean()),
        "rmse_weatherbench2": np.sqrt(weighted((forecast - happened) ** 2, truth.area).mean()),
        "acc": anomaly_correlation(forecast - climatology, happened - climatology, truth.cosine),
        "bias": weighted(forecast - happened, truth.cosine).mean(),
        "persistence_rmse": np.sqrt(square(before)).mean(),
        "persistence_acc": anomaly_correlation(before - climatology, happened - climatology, truth.cosine),
        "climatology_rmse": np.sqrt(square(climatology)).mean(),
        "damped_persistence_rmse": np.sqrt(square(climatology + damping * truth.anomaly(starts, variable))).mean(),
        "damped_persistence_factor": damping,
    }


def field_of(made, name):
    if name in made:
        return made[name]
    variable, level = name.rsplit("_", 1)
    return made[variable].sel(level=float(level))


def score(prefix, path, split, step_hours):
    truth = Truth(prefix, split)
    made = xr.open_dataset(path, decode_timedelta=False)
    place = {time: number for number, time in enumerate(truth.times)}
    starts = np.array([place.get(time, -1) for time in made.time.values])
    leads = {}
    for column, hours in enumerate(made.prediction_timedelta.values):
        lead = int(round(hours / step_hours))
        targets = starts + lead
        inside = (starts >= 0) & (targets >= truth.split["first_time"]) & (targets < truth.split["end_time"])
        variables = {}
        for variable, name in enumerate(truth.names):
            field = field_of(made, name).transpose("time", "prediction_timedelta", "latitude", "longitude")
            forecast = field.values[inside, column].astype("f8")
            variables[name] = scores(truth, forecast, variable, starts[inside], lead)
        leads[f"{lead * step_hours}h"] = {"starts": int(inside.sum()), "variables": variables}
    return {"leads": leads}


def write(path, other):
    """The same forecasts with other names and orders of dimensions, from north to south and from -180."""
    made = xr.open_dataset(path, decode_timedelta=False).drop_vars("valid_time")
    made = made.rename(time="init_time", prediction_timedelta="lead_time", latitude="lat", longitude="lon")
    made = made.assign_coords(lead_time=made.lead_time.values.astype("i4"), lon=(made.lon + 180) % 360 - 180)
    made = made.sortby("lon").isel(lat=slice(None, None, -1)).transpose("lead_time", "lon", "init_time", "lat", ...)
    for coordinate in ("lat", "lon"):
        made[coordinate].attrs = {}
    made.lead_time.attrs = {}
    made.to_netcdf(other)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:4])
    else:
        print(json.dumps(score(*sys.argv[2:5], int(sys.argv[5]))))
