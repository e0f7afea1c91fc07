"""Writes ClimaX's shards of two years, and the same fields as NetCDF files.

Usage: fields_npz_cases.py FOLDER
"""
import pathlib
import sys

import numpy as np
import xarray as xr

SHARDS, TIMES = 4, 5  # of a year


def write(folder):
    draw = np.random.default_rng(5)
    latitude, longitude = np.linspace(-78.75, 78.75, 8), np.arange(16) * 22.5
    shards = folder / "shards/train"
    shards.mkdir(parents=True)
    np.save(folder / "shards/lat.npy", latitude)
    np.save(folder / "shards/lon.npy", longitude.astype("f4"))
    np.savez(shards.parent / "normalize_mean.npz", t2m=np.zeros(1))
    np.savez(shards / "climatology.npz", t2m=np.zeros((1, 8, 16)))
    orography = draw.normal(size=(8, 16)).astype("f4")
    for year in (1999, 2000):
        fields = {name: draw.normal(size=(SHARDS * TIMES, 8, 16)).astype("f4") for name in ("t2m", "geopotential_500")}
        for shard in range(SHARDS):
            of_shard = slice(shard * TIMES, (shard + 1) * TIMES)
            arrays = {name: field[of_shard, None] for name, field in fields.items()}
            arrays["orography"] = np.repeat(orography[None, None], TIMES, axis=0)
            # Both kinds of zip, and both types of numbers.
            if year == 1999:
                np.savez(shards / f"{year}_{shard}.npz", **arrays)
            else:
                arrays["t2m"] = arrays["t2m"].astype("f8")
                np.savez_compressed(shards / f"{year}_{shard}.npz", **arrays)
        # 20 times in 365 days are 438 hours apart.
        times = np.datetime64(f"{year}-01-01") + np.arange(SHARDS * TIMES) * np.timedelta64(438, "h")
        dims = ("time", "lat", "lon")
        made = xr.Dataset({**{name: (dims, field) for name, field in fields.items()}, "orography": (dims[1:], orography)},
                          {"time": times.astype("M8[ns]"), "lat": ("lat", latitude, {"units": "degrees_north"}),
                           "lon": ("lon", longitude, {"units": "degrees_east"})})
        made.time.encoding = {"units": "hours since 1999-01-01", "calendar": "standard"}
        made.to_netcdf(folder / f"netcdf_{year}.nc")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
