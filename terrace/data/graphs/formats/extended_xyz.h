// Reads structures of extended XYZ: a line with the number of atoms, a line with keys and values, a line for each atom.
// The format: https://github.com/libAtoms/extxyz, and where it leaves something open, ASE's reader.
#pragma once

#include <cstddef>
#include <string_view>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Returns the bytes of the first frame of the text, with the blank lines before it. 0 where only blank lines are left,
// or where the text ends within the frame and more of the file follows (`is_all` is false). Throws UserError that says
// what is wrong where the file ends within the frame, and where the frame begins with no number of atoms.
size_t frame_bytes(std::string_view text, bool is_all);

// Reads one frame. Lattice is the cell, with rows a, b, c; pbc its periodicity (one T or F for all three), of which the
// default is all with a Lattice and none without; ADF's lines VEC1 to VEC3 behind the atoms are vectors of a periodic
// cell. Properties names the columns (default species:S:1:pos:R:3); the element is in species, or its number in Z.
// Every other column of reals, integers or logicals is a property of the atoms, every other value of numbers or
// logicals (T, F) one of the structure, also in _JSON. Stresses and virials (quantities.h) have 9 numbers, or 6 in
// ASE's order. Energies, forces, stresses, virials and lengths with a unit (energy-unit=hartree) become eV and
// angstrom. Texts are left out, and so is a line of words without any =; columns behind those of Properties are left
// out with a note. Throws UserError that names the line of the frame and the problem.
Structure parse_extended_xyz(std::string_view frame);

}  // namespace terrace::data
