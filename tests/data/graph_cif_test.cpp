// CIF gives the atoms that ASE reads of the crystals of a Debian package, and what is not read is refused by name.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "terrace/data/graphs/formats/cif.h"
#include "terrace/data/graphs/formats/space_groups.h"
#include "terrace/data/graphs/neighbours.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string salt(const std::string& operations, const std::string& sites) {
  return "# a comment\ndata_salt\n_cell_length_a 4.0(2)\n_cell_length_b 4\n_cell_length_c 5 # behind\n"
         "_cell_angle_alpha 90\n_cell_angle_beta 90\n_cell_angle_gamma 90\n"
         "_publ_section_title\n;\ndata_ in a text, loop_ too\n;\n" +
         operations + "loop_\n_atom_site_label\n_atom_site_fract_x\n_atom_site_fract_y\n_atom_site_fract_z\n" + sites;
}

Structure first_crystal(const std::string& text) { return crystal_of(parse_cif(text).at(0)); }

TEST(Cif, SymmetryOperationsAreSumsOfTerms) {
  const SymmetryOperation operation = parse_symmetry_operation(" 1/2 - X, y+0.25 ,-Z+x");
  EXPECT_EQ(operation.rotation[0], (std::array<double, 3>{-1, 0, 0}));
  EXPECT_EQ(operation.rotation[1], (std::array<double, 3>{0, 1, 0}));
  EXPECT_EQ(operation.rotation[2], (std::array<double, 3>{1, 0, -1}));
  EXPECT_EQ(operation.translation, (std::array<double, 3>{0.5, 0.25, 0}));
  for (const char* wrong : {"x,y", "x,y,z,x", "x,,z", "x,y,q", "x,y,1/0", "x,y,z z", "x+,y,z"}) {
    EXPECT_THAT(user_error([&] { parse_symmetry_operation(wrong); }), HasSubstr("symmetry operation")) << wrong;
  }
}

TEST(Cif, SitesAreMultipliedAndImagesAtOnePlaceAreOneAtom) {
  const Structure crystal = first_crystal(salt("loop_\n_symmetry_equiv_pos_as_xyz\n'x, y, z'\n'-x, -y, -z'\n",
                                               "Na1 0 0 0\nCl1+ 0.25(1) 0.5 0.999\nCl2 0.75 0.5 0.001\n"));
  EXPECT_THAT(crystal.species, ElementsAre(11, 17, 17));
  const std::vector<double> wanted = {0, 0, 0, 1, 2, 4.995, 3, 2, 0.005};
  ASSERT_EQ(crystal.positions.size(), wanted.size());
  // Fractions are about 1 with a rounding of 1e-16, times 5 angstrom.
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(crystal.positions[i], wanted[i], 1e-14) << i;
  EXPECT_EQ(crystal.cell.periodic, (std::array<bool, 3>{true, true, true}));
}

TEST(Cif, WhatIsNotReadIsRefusedByName) {
  const std::string site = "Na1 0 0 0\n";
  EXPECT_EQ(first_crystal(salt("", site)).atoms(), 1);
  EXPECT_EQ(first_crystal(salt("_symmetry_space_group_name_H-M 'P 1'\n", site)).atoms(), 1);
  const auto refused = [](const std::string& text) { return user_error([&] { first_crystal(text); }); };
  EXPECT_THAT(refused(salt("", "Na1 0 0 ?\n")), HasSubstr("_atom_site_fract_z is \"?\""));
  EXPECT_THAT(refused(salt("", "Na1 0 0\n")), HasSubstr("a loop of 4 columns with 3 values"));
  EXPECT_THAT(refused(salt("", "?1 0 0 0\n")), HasSubstr("names no element"));
  EXPECT_THAT(refused(salt("", "Na1 'x 0 0\n")), HasSubstr("a loop of 4 columns with 2 values"));
  EXPECT_THAT(refused("data_a\n_cell_length_a 0\n"), HasSubstr("has no _cell_length_b"));
  EXPECT_THAT(refused("4\n\nH 0 0 0"), HasSubstr("before the first data_ block"));
  std::string partial = salt("", "Na1 0 0 0 0.5\n");
  partial.replace(partial.find("_atom_site_fract_z"), 18, "_atom_site_fract_z\n_atom_site_occupancy");
  EXPECT_THAT(refused(partial), HasSubstr("a site with the occupancy 0.5"));
}

// Damage in a loop that has nothing of the crystal, such as names of authors, does no harm.
TEST(Cif, TextsBesideTheCrystalMayBeDamaged) {
  const std::string authors =
      "loop_\n_citation_author_name\n_citation_year\n'M. O'Keeffe, and O.M. Yaghi',\n1999\n2000\n";
  EXPECT_EQ(first_crystal(salt(authors, "Na1 0 0 0\n")).atoms(), 1);
}

TEST(Cif, SitesMayBeCartesian) {
  std::string cartesian = salt("", "Na1 1 2 2.5\n");
  for (size_t at = cartesian.find("fract"); at != std::string::npos; at = cartesian.find("fract")) {
    cartesian.replace(at, 5, "Cartn");
  }
  EXPECT_THAT(first_crystal(cartesian).positions, ElementsAre(1, 2, 2.5));
}

Structure labelled(const std::string& formula, const std::string& label) {
  return first_crystal(salt("_chemical_formula_sum '" + formula + "'\n", label + " 0 0 0\n"));
}

TEST(Cif, LabelsAreElementsOfTheFormula) {
  const auto element = [](const std::string& formula, const std::string& label) {
    return labelled(formula, label).species.at(0);
  };
  EXPECT_EQ(element("Fe2 O3", "FE1"), 26);
  EXPECT_EQ(element("Fe2 O3", "Fe1a"), 26);
  EXPECT_EQ(element("C2 O3", "CO1"), 6);
  EXPECT_EQ(element("Si O2", "Ob"), 8);
  EXPECT_EQ(element("Si O2 H", "OH2"), 8);
  EXPECT_EQ(element("W O3", "W1"), 74);
  EXPECT_EQ(element("D2 O", "D1"), 1);
  EXPECT_EQ(element("?", "CL1"), 17);
  const auto refused = [](const std::string& formula, const std::string& label) {
    return user_error([&] { labelled(formula, label); });
  };
  // Water is no tungsten, and a tetrahedral site no tritium.
  EXPECT_THAT(refused("Al2 P O8 H5", "Wat"), HasSubstr("\"Wat\", whose element W is not in the formula"));
  EXPECT_THAT(refused("Al2 P O8 H5", "W1"), HasSubstr("whose element W is not in the formula"));
  EXPECT_THAT(refused("?", "Wat"), HasSubstr("names no element"));
  EXPECT_THAT(refused("Si O2 H", "T1"), HasSubstr("names no element"));
  EXPECT_THAT(refused("C6 Co O", "CO1"), HasSubstr("may be C or Co"));
  EXPECT_THAT(refused("Si O2", "Os1"), HasSubstr("may be O or Os"));
}

TEST(Cif, HydrogensWithoutPlacesAreSaid) {
  EXPECT_THAT(labelled("O H2", "O1").notes, ElementsAre(HasSubstr("means 2 of them in the cell, and the sites are 0")));
  EXPECT_TRUE(labelled("O", "O1").notes.empty());
  std::string attached = salt("", "N1 0 0 0 4\n");
  attached.replace(attached.find("_atom_site_fract_z"), 18, "_atom_site_fract_z\n_atom_site_attached_hydrogens");
  EXPECT_THAT(first_crystal(attached).notes, ElementsAre(HasSubstr("_atom_site_attached_hydrogens has 4 of them")));
}

std::string in_group(const std::string& group) {
  std::string text = salt(group, "Na1 0 0 0\nCl1 0.5 0.5 0.5\n");
  return text.replace(text.find("_cell_length_c 5"), 16, "_cell_length_c 4");
}

TEST(Cif, SpaceGroupsWithoutOperationsAreThoseOfTheTables) {
  const std::string name = "_symmetry_space_group_name_H-M 'F m -3 m'\n";
  if (!knows_space_groups()) {
    EXPECT_THAT(user_error([&] { first_crystal(in_group(name)); }), HasSubstr("lists no symmetry operations"));
    GTEST_SKIP() << "this build has no tables of space groups";
  }
  for (const std::string& group : {name, std::string("_symmetry_space_group_name_H-M Fm3m\n"),
                                   std::string("_symmetry_space_group_name_Hall '-F 4 2 3'\n"),
                                   std::string("_symmetry_Int_Tables_number 225\n_symmetry_equiv_pos_as_xyz ?\n")}) {
    const Structure rock_salt = first_crystal(in_group(group));
    EXPECT_EQ(std::ranges::count(rock_salt.species, uint8_t{11}), 4) << group;
    EXPECT_EQ(rock_salt.atoms(), 8) << group;
  }
  const auto refused = [](const std::string& text) { return user_error([&] { first_crystal(text); }); };
  EXPECT_THAT(refused(salt(name, "Na1 0 0 0\n")), HasSubstr("F m -3 m and a cell that has not its symmetry"));
  EXPECT_THAT(refused(in_group("_symmetry_space_group_name_H-M 'F d -3 m'\n")),
              HasSubstr("origin may lie at two places"));
  EXPECT_THAT(refused(in_group("_symmetry_space_group_name_H-M 'Q 1'\n")), HasSubstr("which no table has"));
  EXPECT_THAT(refused(in_group(name + "_symmetry_Int_Tables_number 227\n")), HasSubstr("has the number 225"));
}

// All files where TERRACE_ALL_CRYSTALS is set, as the test house.crystals does; else a sample.
TEST(CifAgainstAse, AtomsAndNeighboursOfCrystalsAreThoseOfAse) {
  const std::string crystals = fetched_crystals();
  if (crystals.empty()) GTEST_SKIP() << "the package with the crystals cannot be fetched";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(crystals)) {
    if (entry.path().extension() == ".cif") files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 510u);
  std::ranges::sort(files);
  if (std::getenv("TERRACE_ALL_CRYSTALS") == nullptr) {
    std::ranges::shuffle(files, std::mt19937(41));
    files.resize(40);
  }
  const TemporaryFolder folder;
  std::ofstream output(folder / "crystals.txt");
  size_t read = 0;
  for (const std::filesystem::path& file : files) {
    output << file.string() << "\n";
    Structure crystal;
    try {
      crystal = first_crystal(read_text(file));
      ++read;
    } catch (const UserError& error) {
      output << "refused " << error.what() << "\n";
      continue;
    }
    const NeighbourList list = find_neighbours(crystal.positions, crystal.cell, {.cutoff = 4});
    output << crystal.atoms() << " " << list.edges() << "\n";
    for (const Vector3& vector : crystal.cell.vectors) {
      output << fmt::format("{} {} {}\n", vector[0], vector[1], vector[2]);
    }
    for (size_t atom = 0; atom < crystal.species.size(); ++atom) {
      output << fmt::format("{} {} {} {}\n", crystal.species[atom], crystal.positions[3 * atom],
                            crystal.positions[3 * atom + 1], crystal.positions[3 * atom + 2]);
    }
    for (size_t edge = 0; edge < list.receivers.size(); ++edge) {
      output << fmt::format("{} {} {}\n", list.receivers[edge], list.senders[edge], fmt::join(list.shifts[edge], " "));
    }
  }
  output.close();
  EXPECT_GT(read, files.size() * 8 / 10);
  EXPECT_THAT(run_graph_cases(folder, {"compare_crystals", folder.path().string()}), HasSubstr("of the crystals"));
}

}  // namespace
}  // namespace terrace::data
