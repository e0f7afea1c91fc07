// Structures of one to five atoms in a row.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "terrace/base/random.h"
#include "terrace/data/graphs/prepare_graphs.h"

namespace terrace {

// Chains with an energy, forces and, unless they are left out, charges that follow from nothing.
inline void write_chains_of_atoms(const std::string& path, uint64_t count, bool with_charges = true) {
  std::ofstream file(path);
  for (uint64_t sample = 0; sample < count; ++sample) {
    uint64_t at = 0;
    const auto draw = [&] { return static_cast<double>(philox_at({5, 9}, sample, at++)[0] % 65) / 64.0; };
    const uint64_t atoms = 1 + sample % 5;
    file << atoms << "\nProperties=species:S:1:pos:R:3:forces:R:3" << (with_charges ? ":charges:R:1" : "")
         << " energy=" << -3.0 * draw() << "\n";
    for (uint64_t atom = 0; atom < atoms; ++atom) {
      file << (atom % 2 == 0 ? "C" : "O") << ' ' << 1.2 * static_cast<double>(atom) << ' ' << draw() << ' ' << draw();
      for (int i = 0; i < (with_charges ? 4 : 3); ++i) file << ' ' << draw() - 0.5;
      file << '\n';
    }
  }
}

// Makes the dataset `prefix` of such chains, and `prefix`.xyz, from which it is prepared.
inline void prepare_chains_of_atoms(const std::string& prefix, uint64_t count, bool with_charges = true) {
  write_chains_of_atoms(prefix + ".xyz", count, with_charges);
  data::GraphsPreparation().prepare({.inputs = {prefix + ".xyz"}, .output = prefix});
}

}  // namespace terrace
