"""Integrates the Held-Suarez test case (Held and Suarez, 1994) and writes its fields every six hours as CF NetCDF.

The dynamical core is that of the package dinosaur-dycore: primitive equations, spectral at T21, on 8 sigma levels, with
semi-implicit steps of 20 minutes. The first days, in which the circulation develops from an atmosphere at rest, are
thrown away. Level 1 is the highest. Run it with the Python of the benchmark's environment (bench/atmosphere/run.py).
"""

import argparse
import functools
import os
import time

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
from dinosaur import (coordinate_systems, held_suarez, primitive_equations, primitive_equations_states, scales,
                      sigma_coordinates, spherical_harmonic, time_integration, xarray_utils)

LEVELS = 8
STEP_MINUTES = 20
HOURS_BETWEEN_TIMES = 6
TIMES_A_DAY = 24 // HOURS_BETWEEN_TIMES
UNITS = scales.units
# Standard name and units of each variable.
VARIABLES = {"u": ("eastward_wind", "m s-1"), "v": ("northward_wind", "m s-1"), "t": ("air_temperature", "K")}


class Atmosphere:
    """The model and its state."""

    def __init__(self, seed):
        self.coords = coordinate_systems.CoordinateSystem(
            horizontal=spherical_harmonic.Grid.T21(),
            vertical=sigma_coordinates.SigmaCoordinates.equidistant(LEVELS))
        self.specs = primitive_equations.PrimitiveEquationsSpecs.from_si()
        initial, features = primitive_equations_states.isothermal_rest_atmosphere(
            self.coords, self.specs, p0=1e5 * UNITS.pascal, p1=5e3 * UNITS.pascal)
        self.reference = np.asarray(features[xarray_utils.REF_TEMP_KEY])
        orography = primitive_equations.truncated_modal_orography(features[xarray_utils.OROGRAPHY], self.coords)
        equations = time_integration.compose_equations([
            primitive_equations.PrimitiveEquations(self.reference, orography, self.coords, self.specs),
            held_suarez.HeldSuarezForcing(self.coords, self.specs, self.reference)])
        seconds = self.specs.nondimensionalize(STEP_MINUTES * UNITS.minute)
        # The filter of the package's own Held-Suarez example: it leaves total wave numbers up to 0.8 of the largest as they are,
        # and removes the largest in one step (e-folding in a minute; in between as the third power of the distance).
        minute = self.specs.nondimensionalize(1 * UNITS.minute)
        diffusion = time_integration.exponential_step_filter(self.coords.horizontal, seconds, tau=minute, order=1.5, cutoff=0.8)
        step = time_integration.step_with_filters(time_integration.imex_rk_sil3(equations, seconds), [diffusion])
        steps = HOURS_BETWEEN_TIMES * 60 // STEP_MINUTES
        self.advance = jax.jit(time_integration.repeated(step, steps))
        self.fields = jax.jit(self._fields)
        self.state = initial(jax.random.PRNGKey(seed))

    def _fields(self, state):
        grid = self.coords.horizontal
        u, v = spherical_harmonic.vor_div_to_uv_nodal(grid, state.vorticity, state.divergence)
        temperature = self.reference[:, np.newaxis, np.newaxis] + grid.to_nodal(state.temperature_variation)
        pressure = jnp.exp(grid.to_nodal(state.log_surface_pressure))
        return u, v, temperature, pressure

    def physical_fields(self):
        """u, v and t [level, longitude, latitude], and the surface pressure [longitude, latitude], in SI units."""
        of_unit = [UNITS.meter / UNITS.second, UNITS.meter / UNITS.second, UNITS.degK, UNITS.pascal]
        fields = [np.squeeze(np.asarray(self.specs.dimensionalize(np.asarray(field), unit).magnitude))
                  for field, unit in zip(self.fields(self.state), of_unit)]
        if not all(np.isfinite(field).all() for field in fields):
            raise SystemExit("the integration is not stable: a field is not finite")
        return fields


def create(path, coords):
    file = netCDF4.Dataset(path, "w")
    file.Conventions = "CF-1.8"
    file.title = "Held-Suarez test case, T21, 8 sigma levels, every 6 hours"
    longitudes, sines = coords.horizontal.nodal_axes
    axes = {
        "time": (None, "f8", {"units": "hours since 2001-01-01", "calendar": "noleap", "standard_name": "time"}),
        "level": (np.arange(1, LEVELS + 1), "i4",
                  {"units": "1", "standard_name": "model_level_number", "axis": "Z", "positive": "down"}),
        "latitude": (np.rad2deg(np.arcsin(sines)), "f8", {"units": "degrees_north", "standard_name": "latitude"}),
        "longitude": (np.rad2deg(longitudes), "f8", {"units": "degrees_east", "standard_name": "longitude"}),
    }
    for name, (values, kind, attributes) in axes.items():
        file.createDimension(name, None if values is None else len(values))
        axis = file.createVariable(name, kind, (name,))
        axis.setncatts(attributes)
        if values is not None:
            axis[:] = values
    places = (len(axes["latitude"][0]), len(axes["longitude"][0]))
    for name, (standard_name, units) in VARIABLES.items():
        variable = file.createVariable(name, "f4", ("time", "level", "latitude", "longitude"),
                                       chunksizes=(TIMES_A_DAY, LEVELS) + places)
        variable.setncatts({"standard_name": standard_name, "units": units})
    pressure = file.createVariable("ps", "f4", ("time", "latitude", "longitude"), chunksizes=(TIMES_A_DAY,) + places)
    pressure.setncatts({"standard_name": "surface_air_pressure", "units": "Pa"})
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--days", type=int, default=1500, help="that are written")
    parser.add_argument("--thrown-away", type=int, default=200, help="days before them")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    atmosphere = Atmosphere(arguments.seed)
    partial = arguments.output + ".partial"
    file = create(partial, atmosphere.coords)
    begin = last = time.time()
    for number in range((arguments.thrown_away + arguments.days) * TIMES_A_DAY):
        atmosphere.state = atmosphere.advance(atmosphere.state)
        index = number - arguments.thrown_away * TIMES_A_DAY
        if index >= 0:
            u, v, temperature, pressure = (field.swapaxes(-1, -2) for field in atmosphere.physical_fields())
            file["time"][index] = index * HOURS_BETWEEN_TIMES
            file["u"][index], file["v"][index], file["t"][index] = u, v, temperature
            file["ps"][index] = pressure
        if time.time() - last > 10:
            last = time.time()
            print(f"day {number // TIMES_A_DAY} of {arguments.thrown_away + arguments.days}, {last - begin:.0f} s",
                  flush=True)
    file.close()
    os.replace(partial, arguments.output)
    print(f"wrote {arguments.output} after {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
