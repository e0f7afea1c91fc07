// Frames of extended XYZ are read by ASE's rules, and what is wrong in them is named by its line.
#include <gmock/gmock.h>

#include "terrace/data/graphs/formats/extended_xyz.h"
#include "terrace/data/graphs/formats/xyz_keys.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> property_values(const Properties& properties, const std::string& name) {
  const auto found = properties.find(name);
  return found == properties.end() ? std::vector<double>{} : found->second.values;
}

TEST(ExtendedXyz, KeysAndValuesAreQuotedInFiveWays) {
  EXPECT_THAT(keys_and_values(R"( a=1 b="two words" c='it"s' d={1 2} e=[3 4]  flag f="say \"x\"" g=h=i k="" )"),
              ElementsAre(KeyAndValue{"a", "1"}, KeyAndValue{"b", "two words"}, KeyAndValue{"c", "it\"s"},
                          KeyAndValue{"d", "1 2"}, KeyAndValue{"e", "3 4"}, KeyAndValue{"flag", std::nullopt},
                          KeyAndValue{"f", "say \"x\""}, KeyAndValue{"g", "h=i"}, KeyAndValue{"k", ""}));
  EXPECT_THAT(user_error([] { keys_and_values("a=\"1 2 b=3"); }), HasSubstr("not closed"));
}

TEST(ExtendedXyz, AFrameHasItsCellItsColumnsAndItsValues) {
  const Structure water = parse_extended_xyz(
      "3\n"
      "Lattice=\"8 0 0 1 9 0 0 2 10\" pbc=\"T F T\" Properties=species:S:1:pos:R:3:forces:R:3:fixed:L:1:tag:I:1 "
      "energy=-14.25 stress=\"1 2 3 4 5 6 7 8 9\" name=\"a b\" dipole=\"_JSON [1, 2.5, 3]\" steps=1,2 converged\n"
      "O 0.0 0.25 -1e-1 1 2 3 T 7\r\n"
      "H +0.5 0 0 4 5 6 F -8\n"
      "D 0 0.75 0 7 8 9 F 9\n");
  EXPECT_THAT(water.species, ElementsAre(8, 1, 1));
  EXPECT_THAT(water.positions, ElementsAre(0, 0.25, -0.1, 0.5, 0, 0, 0, 0.75, 0));
  EXPECT_EQ(water.cell, (Cell{{{{8, 0, 0}, {1, 9, 0}, {0, 2, 10}}}, {true, false, true}}));
  EXPECT_THAT(property_values(water.of_atoms, "forces"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(water.of_atoms.at("forces").width, 3);
  EXPECT_THAT(property_values(water.of_atoms, "fixed"), ElementsAre(1, 0, 0));
  EXPECT_THAT(property_values(water.of_atoms, "tag"), ElementsAre(7, -8, 9));
  EXPECT_THAT(property_values(water.of_structure, "energy"), ElementsAre(-14.25));
  // ASE writes 3 x 3 tensors by columns; here they are by rows.
  EXPECT_THAT(property_values(water.of_structure, "stress"), ElementsAre(1, 4, 7, 2, 5, 8, 3, 6, 9));
  EXPECT_THAT(property_values(water.of_structure, "dipole"), ElementsAre(1, 2.5, 3));
  EXPECT_THAT(property_values(water.of_structure, "steps"), ElementsAre(1, 2));
  EXPECT_THAT(property_values(water.of_structure, "converged"), ElementsAre(1));
  EXPECT_FALSE(water.of_structure.contains("name"));
}

TEST(ExtendedXyz, WithoutKeysThereAreElementsAndPositions) {
  const Structure helium = parse_extended_xyz("\n1\na noble gas\nHe 1 2 3");
  EXPECT_THAT(helium.species, ElementsAre(2));
  EXPECT_FALSE(helium.cell.is_periodic());
  EXPECT_TRUE(helium.of_structure.empty());
  const Structure numbered =
      parse_extended_xyz("1\nProperties=Z:I:1:pos:R:3 Lattice=\"1 0 0 0 1 0 0 0 1\"\n26 1 2 3\n");
  EXPECT_THAT(numbered.species, ElementsAre(26));
  EXPECT_EQ(numbered.cell.periodic, (std::array<bool, 3>{true, true, true}));
}

TEST(ExtendedXyz, FramesEndAfterTheirAtoms) {
  const std::string text = "1\n\nH 0 0 0\n\n2\nkeys\nH 0 0 0\nH 0 0 1\n\n";
  const size_t first = frame_bytes(text, true);
  EXPECT_EQ(text.substr(0, first), "1\n\nH 0 0 0\n");
  const std::string rest = text.substr(first);
  EXPECT_EQ(rest.substr(0, frame_bytes(rest, true)), "\n2\nkeys\nH 0 0 0\nH 0 0 1\n");
  EXPECT_EQ(frame_bytes("\n \n", true), 0u);
  // More may follow.
  EXPECT_EQ(frame_bytes("1\n\nH 0 0 0", false), 0u);
  EXPECT_EQ(frame_bytes("1", false), 0u);
  EXPECT_EQ(frame_bytes("12\nkeys\n", false), 0u);
  EXPECT_THAT(user_error([] { frame_bytes("3\n\nH 0 0 0\n", true); }), HasSubstr("ends after 1 of 3 atoms"));
  EXPECT_THAT(user_error([] { frame_bytes("H 0 0 0\n", true); }), HasSubstr("begins with \"H 0 0 0\""));
}

TEST(ExtendedXyz, ProblemsAreNamedByTheirLines) {
  const auto refused = [](const std::string& keys, const std::string& atom) {
    return user_error([&] { parse_extended_xyz("1\n" + keys + "\n" + atom + "\n"); });
  };
  EXPECT_THAT(refused("", "Qq 0 0 0"), HasSubstr("line 3: Qq is no element"));
  EXPECT_THAT(refused("Properties=Z:I:1:pos:R:3", "119 0 0 0"), HasSubstr("119 is no element"));
  EXPECT_THAT(refused("", "H 0 0"), HasSubstr("line 3 has 3 columns, and Properties wants 4"));
  EXPECT_THAT(refused("", "H 0 0 x"), HasSubstr("line 3: pos has \"x\", which is no number"));
  EXPECT_THAT(refused("Properties=species:S:1:pos:R:3:n:I:1", "H 0 0 0 1.5"), HasSubstr("no whole number"));
  EXPECT_THAT(refused("Lattice=\"1 2 3\"", "H 0 0 0"), HasSubstr("Lattice has 3 numbers and needs 9"));
  EXPECT_THAT(refused("pbc=\"T T\"", "H 0 0 0"), HasSubstr("three of T and F"));
  EXPECT_THAT(refused("stress=\"1 2\"", "H 0 0 0"), HasSubstr("stress has 2 numbers and needs 9"));
  EXPECT_THAT(refused("Properties=species:S:1", "H"), HasSubstr("no pos:R:3"));
  EXPECT_THAT(refused("Properties=pos:R:3", "0 0 0"), HasSubstr("neither species:S:1 nor Z:I:1"));
  EXPECT_THAT(refused("Properties=species:S:1:pos:R:2", "H 0 0"), HasSubstr("has to be pos:R:3"));
  EXPECT_THAT(refused("Properties=species:S:1:pos:R", "H 0 0 0"), HasSubstr("no list of NAME:TYPE:COLUMNS"));
  EXPECT_THAT(refused("Properties=species:S:1:pos:R:3:q:R:1:q:R:1", "H 0 0 0 1 1"), HasSubstr("names q twice"));
}

}  // namespace
}  // namespace terrace::data
