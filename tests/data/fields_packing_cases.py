"""Writes variables with every combination of the attributes of packing, and compares what is prepared of them with what
netCDF4 and xarray decode.

Usage: fields_packing_cases.py write FOLDER; fields_packing_cases.py compare FOLDER, with each FOLDER/NAME prepared as FOLDER/out/NAME
"""
import json
import pathlib
import sys
import warnings

import netCDF4
import numpy as np
import xarray as xr

warnings.simplefilter("ignore")

SHAPE = (3, 4, 5)
INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
TYPES = {
    "NETCDF3_CLASSIC": ("i1", "i2", "i4", "f4", "f8"),
    "NETCDF3_64BIT_OFFSET": ("i1", "i2", "i4", "f4", "f8"),
    "NETCDF3_64BIT_DATA": (*INTEGERS, "f4", "f8"),
    "NETCDF4_CLASSIC": ("i1", "i2", "i4", "f4", "f8"),
    "NETCDF4": (*INTEGERS, "f4", "f8"),
}
VARIABLES = 60  # of each format


def without_sign(kind, flag):
    """The type after _Unsigned."""
    if flag == "true" and kind[0] == "i":
        return "u" + kind[1]
    if flag == "false" and kind[0] == "u":
        return "i" + kind[1]
    return kind


def draw_raw(draw, kind):
    """Numbers near the ends of the type and near 0, few enough that attributes meet them."""
    if kind[0] == "f":
        return draw.choice(np.array([-9999, -999.9, -1, 0, 0.1, 0.5, 1, 2.5, 100, 1e20, np.nan]), SHAPE).astype(kind)
    info = np.iinfo(kind)
    few = [info.min, info.min + 1, info.min + 2, info.min + 6, 0, 1, 2, 3, 5, 20, 100, info.max - 6, info.max - 2, info.max - 1, info.max]
    few += [-1, -2, -6, -100] if kind[0] == "i" else []
    return np.array([few[i] for i in draw.integers(len(few), size=SHAPE).ravel()], dtype=kind).reshape(SHAPE)


def one_of(draw, raw):
    return raw.ravel()[draw.integers(raw.size)]


def draw_attributes(draw, kind, raw):
    """Attributes in the types that CF and the NetCDF Users Guide allow."""
    found = {"units": "1"}
    flag = draw.choice(["", "", "true", "false"])
    if flag and kind[0] != "f":
        found["_Unsigned"] = str(flag)
    if draw.random() < 0.5:
        found["_FillValue"] = one_of(draw, raw)
    if draw.random() < 0.4:
        several = np.array([one_of(draw, raw) for _ in range(draw.integers(1, 4))], dtype=kind)
        found["missing_value"] = several if several.size > 1 else several[0]
    scales = draw.choice(["none", "both", "scale", "offset"])
    wider = np.dtype(draw.choice(["f4", "f8"]))
    if scales in ("both", "scale"):
        found["scale_factor"] = wider.type(draw.choice([0.5, 0.01, -2.0]))
    if scales in ("both", "offset"):
        found["add_offset"] = np.dtype(draw.choice(["f4", "f8"])).type(draw.choice([10.0, 273.15]))
    view = np.dtype(without_sign(kind, found.get("_Unsigned")))
    ends = np.sort(np.array([one_of(draw, raw), one_of(draw, raw)]).view(view)).view(kind)
    if np.isnan(ends.astype("f8")).any():
        ends = np.array([0, 100], dtype=kind)
    ranges = draw.choice(["none", "none", "range", "least", "most", "both", "physical"])
    if ranges == "range":
        found["valid_range"] = ends
    if ranges in ("least", "both"):
        found["valid_min"] = ends[0]
    if ranges in ("most", "both"):
        found["valid_max"] = ends[1]
    if ranges == "physical" and scales != "none" and kind[0] != "f":
        found["valid_range"] = np.array([-1.25, 290.5], dtype=np.result_type(*[found[n] for n in ("scale_factor", "add_offset") if n in found]))
    return found


def is_physical(kind, attributes, limits):
    packing = [np.asarray(attributes[n]).dtype for n in ("scale_factor", "add_offset") if n in attributes]
    return bool(packing) and kind[0] != "f" and np.asarray(limits).dtype == max(packing, key=lambda one: one.itemsize)


def default_fills(kind):
    return [] if kind in ("i1", "u1") else [np.array(netCDF4.default_fillvals[kind]).astype(kind)]


def grid(made):
    """Coordinates may be packed too."""
    made("lat", np.array([-6000, -2000, 2000, 6000], dtype="i2"), {"units": "degrees_north", "scale_factor": 0.01})
    made("lon", np.array([0, 36, 72, 108, -112], dtype="i1"), {"units": "degrees_east", "_Unsigned": "true", "scale_factor": 2.0})
    made("time", np.array([0.0, 6, 12]), {"units": "hours since 2000-01-01"})


class Netcdf:
    def __init__(self, path, layout):
        self.file = netCDF4.Dataset(path, "w", format=layout)
        grid(lambda name, values, attributes: self.add(name, values, attributes, (name,)))

    def add(self, name, values, attributes, dimensions=("time", "lat", "lon")):
        for dimension, size in zip(dimensions, values.shape):
            if dimension not in self.file.dimensions:
                self.file.createDimension(dimension, size)
        made = self.file.createVariable(name, values.dtype, dimensions, fill_value=attributes.get("_FillValue"))
        made.set_auto_maskandscale(False)
        for attribute, value in attributes.items():
            if attribute != "_FillValue":
                made.setncattr(attribute, value)
        made[:] = values

    def close(self):
        self.file.close()


class Zarr:
    """A store of version 2 without compression; xarray has its fill value for _FillValue."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        grid(lambda name, values, attributes: self.add(name, values, attributes, (name,)))

    def add(self, name, values, attributes, dimensions=("time", "lat", "lon")):
        folder = self.path / name
        folder.mkdir()
        fill = attributes.get("_FillValue")
        fill = None if fill is None else "NaN" if np.isnan(fill) else fill.item()
        described = {"zarr_format": 2, "shape": values.shape, "chunks": values.shape, "dtype": values.dtype.str, "fill_value": fill,
                     "order": "C", "filters": None, "compressor": None}  # fmt: skip
        (folder / ".zarray").write_text(json.dumps(described))
        plain = {n: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for n, v in attributes.items() if n != "_FillValue"}
        (folder / ".zattrs").write_text(json.dumps(plain | {"_ARRAY_DIMENSIONS": list(dimensions)}))
        (folder / ".".join(["0"] * values.ndim)).write_bytes(values.tobytes())


def fits_zarr(attributes):
    """libnetcdf 4.9 opens no store with longer lists of whole numbers than the first's type holds."""
    lists = [v for v in attributes.values() if isinstance(v, np.ndarray) and v.dtype.kind in "iu"]
    return not any(abs(int(one)) > 127 for v in lists for one in v)


def write(folder):
    draw = np.random.default_rng(58)
    for layout, kinds in TYPES.items():
        file = Netcdf(folder / f"{layout}.nc", layout)
        store = Zarr(folder / f"{layout}.zarr") if layout == "NETCDF4" else None
        for number in range(VARIABLES):
            kind = kinds[number % len(kinds)]
            raw = draw_raw(draw, kind)
            attributes = draw_attributes(draw, kind, raw)
            file.add(f"v{number}", raw, attributes)
            if store is not None and fits_zarr(attributes):
                store.add(f"v{number}", raw, attributes)
        file.close()


def decoded(raw, attributes, has_default):
    """By the words of the conventions, for what netCDF4 does not do."""
    kind = raw.dtype.str[1:]
    view = np.dtype(without_sign(kind, attributes.get("_Unsigned")))
    as_view = lambda number: np.atleast_1d(np.asarray(number).astype(raw.dtype)).view(view)  # noqa: E731
    stored = raw.view(view)
    missing = np.isnan(stored.astype("f8"))
    fills = [attributes[n] for n in ("_FillValue", "missing_value") if n in attributes]
    if has_default and "_FillValue" not in attributes and view == raw.dtype:
        fills += default_fills(kind)
    for fill in fills:
        for one in as_view(fill):
            missing |= stored == one
    value = stored.astype("f8") * np.float64(attributes.get("scale_factor", 1)) + np.float64(attributes.get("add_offset", 0))
    limits = [(n, v) for n, v in zip(("valid_min", "valid_max"), np.ravel(attributes["valid_range"]))] if "valid_range" in attributes else [
        (n, attributes[n]) for n in ("valid_min", "valid_max") if n in attributes]  # fmt: skip
    for name, limit in limits:
        of, end = (value, np.float64(limit)) if is_physical(kind, attributes, limit) else (stored, as_view(limit)[0])
        missing |= of < end if name == "valid_min" else of > end
    return np.where(missing, np.nan, value).astype("f4")


def netcdf4_has_these_rules(raw, attributes):
    kind = raw.dtype.str[1:]
    is_byte = kind in ("i1", "u1") and "_FillValue" not in attributes  # netCDF4 takes 255 for a fill value that nobody gave
    signed_by_flag = kind[0] == "u" and attributes.get("_Unsigned") == "false"
    physical = is_physical(kind, attributes, attributes.get("valid_range", np.int8(0)))
    return not is_byte and not signed_by_flag and not physical


def xarray_has_these_rules(raw, attributes):
    kind = raw.dtype.str[1:]
    has_range = any(n.startswith("valid_") for n in attributes)
    has_default = "_FillValue" not in attributes and any((raw == one).any() for one in default_fills(kind))
    converts_missing = "_Unsigned" in attributes and "missing_value" in attributes  # xarray leaves its sign
    # xarray compares after a conversion to a floating type, in which large numbers and fractions differ from the stored ones.
    is_packed = "scale_factor" in attributes or "add_offset" in attributes
    rounds = kind in ("i8", "u8") or (kind in ("i4", "u4", "f8") and is_packed)
    return not has_range and not has_default and not converts_missing and not rounds


def expect_close(found, theirs, raw, attributes, message):
    """Both programs unpack in the type of scale_factor, so that a product and a sum of fp32 round, each by 6e-8 at most."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(theirs), err_msg=message)
    stored = np.abs(raw.view(without_sign(raw.dtype.str[1:], attributes.get("_Unsigned"))).astype("f8"))
    largest = stored * np.abs(np.float64(attributes.get("scale_factor", 1))) + np.abs(np.float64(attributes.get("add_offset", 0)))
    wrong = np.abs(found.astype("f8") - theirs) > 4 * 6e-8 * largest
    assert not wrong.any(), (message, found[wrong], theirs[wrong])


def compare_netcdf(folder, path, ours):
    file, other = netCDF4.Dataset(path), xr.open_dataset(path, decode_times=False)
    compared = {"netCDF4": 0, "xarray": 0, "all": 0}
    for name in ours["variable"].values:
        stored = file[name]
        attributes = {n: stored.getncattr(n) for n in stored.ncattrs()}
        stored.set_auto_maskandscale(False)
        raw = stored[:]
        found = ours["fields"].sel(variable=name).values
        expected = decoded(raw, attributes, has_default=True)
        np.testing.assert_array_equal(found, expected, err_msg=f"{path.name} {name} {raw.dtype} {attributes}")
        compared["all"] += 1
        stored.set_auto_maskandscale(True)
        if netcdf4_has_these_rules(raw, attributes):
            theirs = np.ma.filled(np.ma.asarray(stored[:]).astype("f8"), np.nan)
            expect_close(found, theirs, raw, attributes, f"netCDF4 {path.name} {name} {attributes}")
            compared["netCDF4"] += 1
        if xarray_has_these_rules(raw, attributes):
            expect_close(found, other[name].values.astype("f8"), raw, attributes, f"xarray {path.name} {name} {attributes}")
            compared["xarray"] += 1
    return compared


def compare_zarr(folder, twin, ours):
    file = netCDF4.Dataset(twin)
    for name in ours["variable"].values:
        stored = file[name]
        stored.set_auto_maskandscale(False)
        attributes = {n: stored.getncattr(n) for n in stored.ncattrs()}
        found = ours["fields"].sel(variable=name).values
        np.testing.assert_array_equal(found, decoded(stored[:], attributes, has_default=False), err_msg=f"Zarr {name} {attributes}")
    return {"Zarr": len(ours["variable"])}


def compare(folder):
    counts = {}
    for path in sorted(folder.glob("*.nc")) + sorted(folder.glob("*.zarr")):
        ours = xr.open_dataset(folder / "out" / f"{path.name}.nc")
        np.testing.assert_array_equal(ours.latitude, [-60, -20, 20, 60])
        np.testing.assert_array_equal(ours.longitude, [0, 72, 144, 216, 288])
        found = compare_netcdf(folder, path, ours) if path.suffix == ".nc" else compare_zarr(folder, path.with_suffix(".nc"), ours)
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count
    print(", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](pathlib.Path(sys.argv[2]))
