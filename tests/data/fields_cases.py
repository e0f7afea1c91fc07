"""Writes NetCDF files of many kinds with xarray, and compares datasets prepared of them with what xarray reads.

Usage: fields_cases.py write FOLDER; fields_cases.py compare FOLDER, with each FOLDER/NAME.nc prepared as FOLDER/out/NAME
"""
import json
import pathlib
import sys

import cftime
import netCDF4
import numpy as np
import xarray as xr

TRAINING = slice(0, 40)  # of 50 times


def times(calendar, step_hours):
    units = "hours since 1999-12-20 06:00:00"
    return xr.DataArray(cftime.num2date(np.arange(50) * step_hours, units, calendar), dims="time"), units


def dataset(draw, calendar="standard", step_hours=6):
    time, units = times(calendar, step_hours)
    latitude = np.linspace(-80, 80, 9)
    longitude = np.arange(16) * 22.5
    levels = np.array([1000.0, 850.0, 500.0])
    fields = {
        "t2m": (("time", "lat", "lon"), draw.normal(280, 15, (50, 9, 16)).astype("f4"), {"units": "K", "standard_name": "air_temperature"}),
        "z": (("time", "level", "lat", "lon"), draw.normal(5e4, 3e3, (50, 3, 9, 16)).astype("f4"), {"units": "m**2 s**-2"}),
        "lsm": (("lat", "lon"), draw.uniform(0, 1, (9, 16)).astype("f4"), {"units": "(0 - 1)"}),
        "time_bounds": (("time", "bounds"), draw.normal(size=(50, 2)), {}),
    }
    coordinates = {"time": time, "level": ("level", levels, {"units": "hPa"}),
                   "lat": ("lat", latitude, {"units": "degrees_north"}), "lon": ("lon", longitude, {"units": "degrees_east"})}
    made = xr.Dataset(fields, coordinates)
    made.time.encoding = {"units": units, "calendar": calendar}
    return made


def cases(draw):
    for calendar in ("standard", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap"):
        yield calendar, dataset(draw, calendar), {}
    yield "hourly", dataset(draw, step_hours=1), {"format": "NETCDF3_CLASSIC"}
    yield "daily", dataset(draw, step_hours=24), {"format": "NETCDF3_64BIT"}
    yield "data64", dataset(draw), {"format": "NETCDF4_CLASSIC"}
    yield "upside_down", dataset(draw).isel(lat=slice(None, None, -1), level=slice(None, None, -1)), {}
    west = dataset(draw)
    west = west.assign_coords(lon=("lon", (west.lon.values + 180) % 360 - 180, west.lon.attrs)).sortby("lon")
    yield "from_west", west, {}
    yield "transposed", dataset(draw).transpose("lon", "level", "lat", "time", "bounds"), {}
    compressed = {name: {"zlib": True, "complevel": 4, "chunksizes": (7, 5, 4)} for name in ("t2m",)}
    compressed["z"] = {"zlib": True, "shuffle": True, "chunksizes": (50, 1, 9, 16)}
    yield "compressed", dataset(draw), {"encoding": compressed}
    packing = {"t2m": {"dtype": "i2", "scale_factor": 0.002, "add_offset": 280.0, "_FillValue": -32768},
               "z": {"dtype": "i4", "scale_factor": 0.5, "add_offset": 5e4, "_FillValue": -2147483648}}
    yield "packed", dataset(draw), {"encoding": packing}
    yield "doubles", dataset(draw).map(lambda v: v.astype("f8") if v.dtype == "f4" else v, keep_attrs=True), {}
    pascals = dataset(draw)
    yield "pascals", pascals.assign_coords(level=("level", pascals.level.values * 100, {"units": "Pa"})), {}


def write(folder):
    draw = np.random.default_rng(3)
    for name, made, options in cases(draw):
        made.to_netcdf(folder / f"{name}.nc", engine="netcdf4", unlimited_dims=["time"], **options)


def expected(path):
    """Fields by name, [time, lat, lon], south to north and from 0 to 360."""
    coder = xr.coders.CFDatetimeCoder(use_cftime=True)
    read = xr.open_dataset(path, engine="netcdf4", decode_times=coder)
    read = read.assign_coords(lon=read.lon % 360).sortby("lon").sortby("lat").sortby("level")
    hectopascals = read.level.values / (100 if read.level.attrs["units"] == "Pa" else 1)
    fields = {"t2m": read.t2m.transpose("time", "lat", "lon")}
    for number, level in enumerate(hectopascals):
        fields[f"z_{level:g}"] = read.z.isel(level=number).transpose("time", "lat", "lon")
    return read, fields


def compare(folder, name):
    read, fields = expected(folder / f"{name}.nc")
    made = xr.open_dataset(folder / "out" / f"{name}.nc", decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))
    described = json.loads((folder / "out" / f"{name}.json").read_text())
    assert list(made["variable"].values) == list(fields) == [v["name"] for v in described["variables"]], made["variable"]
    assert list(made.time.values) == list(read.time.values)
    assert made.time.encoding["calendar"] == read.time.encoding["calendar"]
    np.testing.assert_array_equal(made.latitude, read.lat)
    np.testing.assert_array_equal(made.longitude, read.lon)
    assert list(made["variable_units"].values) == ["K"] + ["m**2 s**-2"] * 3
    # xarray unpacks in fp32, where one multiplication and one addition round.
    tolerance = 3e-7 if name == "packed" else 0
    np.testing.assert_allclose(made["constants"].sel(constant="lsm"), read.lsm.transpose("lat", "lon").astype("f4"), rtol=tolerance)
    for (variable, field), entry in zip(fields.items(), described["variables"]):
        ours = made["fields"].sel(variable=variable)
        np.testing.assert_allclose(ours, field.astype("f4"), rtol=tolerance, err_msg=variable)
        training = ours.isel(time=TRAINING).astype("f8")
        # Sums of some thousand numbers in double precision, of which the mean is far from 0.
        np.testing.assert_allclose(entry["mean"], training.mean(), rtol=1e-13)
        np.testing.assert_allclose(entry["deviation"], training.std(), rtol=1e-11)
        np.testing.assert_allclose(entry["changes"]["mean"], training.diff("time").mean(), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(entry["changes"]["deviation"], training.diff("time").std(), rtol=1e-11)
        monthly = training.groupby("time.month").mean()
        climatology = made["climatology"].sel(variable=variable)
        for month in monthly.month.values:
            np.testing.assert_allclose(climatology.isel(period_of_year=month - 1), monthly.sel(month=month), rtol=1.2e-7)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(target)
    else:
        names = sorted(path.stem for path in target.glob("*.nc"))
        for one in names:
            compare(target, one)
        print(f"{len(names)} the same, read by xarray {xr.__version__} and netCDF4 {netCDF4.__version__}")
