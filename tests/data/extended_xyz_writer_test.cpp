// Reads back what is written.
#include "terrace/data/graphs/formats/extended_xyz_writer.h"

#include <gtest/gtest.h>

#include "terrace/data/graphs/formats/extended_xyz.h"

namespace terrace::data {
namespace {

TEST(ExtendedXyzWriter, WritesWhatTheReaderReadsExactly) {
  const Structure given{
      .species = {29, 1, 8},
      .positions = {0.1, -1e-17, 1.0 / 3, 2, 3, 4, -5, 1e10, 0.7},
      .cell = {.vectors = {{{4.1, 0, 0.3}, {0, 5.2, 0}, {1e-3, 0, 6}}}, .periodic = {true, false, true}},
      .of_structure = {{"energy", {.width = 1, .values = {-1.0 / 7}}},
                       {"free energy", {.width = 1, .values = {2.5}}},
                       {"dipole", {.width = 3, .values = {1, -2.25, 3e-200}}}},
      .of_atoms = {{"forces", {.width = 3, .values = {1, 2, 3, 4, 5, 6, 7, 8, 1e-9}}},
                   {"charge", {.width = 1, .values = {0.5, -0.5, 0}}}}};
  const Structure read = parse_extended_xyz(extended_xyz(given));
  EXPECT_EQ(read.species, given.species);
  EXPECT_EQ(read.positions, given.positions);
  EXPECT_EQ(read.cell, given.cell);
  EXPECT_EQ(read.of_structure, given.of_structure);
  EXPECT_EQ(read.of_atoms, given.of_atoms);
}

TEST(ExtendedXyzWriter, WritesMoleculesWithoutACell) {
  const Structure given{.species = {6}, .positions = {1, 2, 3}};
  const std::string text = extended_xyz(given);
  EXPECT_EQ(text.find("Lattice"), std::string::npos);
  EXPECT_EQ(parse_extended_xyz(text).cell, given.cell);
}

}  // namespace
}  // namespace terrace::data
