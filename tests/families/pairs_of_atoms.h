// Structures of two atoms with an energy that depends on their distance.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

#include "terrace/base/random.h"

namespace terrace {

// Pairs of atoms in any direction from each other with the energy (1 - exp(1.2 - d))^2 - 6 and its forces.
inline void write_pairs_of_atoms(const std::string& path, uint64_t count) {
  std::ofstream file(path);
  for (uint64_t sample = 0; sample < count; ++sample) {
    const auto draw = [&](uint64_t i) { return static_cast<double>(philox_at({6, 1}, sample, i)[0] % 1025) / 1024.0; };
    const double distance = 0.8 + 1.8 * draw(0), z = 2 * draw(1) - 1, angle = 6.2831853 * draw(2);
    const double across = std::sqrt(1 - z * z), e = std::exp(1.2 - distance), slope = 2 * (1 - e) * e;
    const std::array<double, 3> direction = {across * std::cos(angle), across * std::sin(angle), z};
    file << "2\nProperties=species:S:1:pos:R:3:forces:R:3 energy=" << (1 - e) * (1 - e) - 6 << "\nC 0 0 0";
    for (const double part : direction) file << ' ' << slope * part;
    file << "\nC";
    for (const double part : direction) file << ' ' << distance * part;
    for (const double part : direction) file << ' ' << -slope * part;
    file << '\n';
  }
}

}  // namespace terrace
