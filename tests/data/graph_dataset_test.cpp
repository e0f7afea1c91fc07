// Datasets of graphs hold what the files say, in parts that keep groups together, and refuse what training cannot use.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "terrace/data/graphs/dataset/graph_parts.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string two_frames =
    "2\nLattice=\"9 0 0 0 9 0 0 0 9\" pbc=\"T F F\" energy=-3 Properties=species:S:1:pos:R:3:forces:R:3 name=a\n"
    "O 0 0 0 1 2 3\nH 0 0 1 -1 -2 -3\n"
    "1\nenergy=5 charge=1 Properties=species:S:1:pos:R:3:forces:R:3\nHe 4 5 6 0 0 0.5\n";

TEST(GraphsDataset, HasStructuresPropertiesAndStatistics) {
  const TemporaryFolder folder;
  const std::string first = folder.write("in/a.xyz", two_frames);
  const std::string second =
      folder.write("in/b.extxyz", "1\nenergy=1 Properties=species:S:1:pos:R:3:forces:R:3\nH 0 0 0 2 0 0\n");
  const PrepareResult result = prepare_graphs({folder / "in"}, folder / "out/p.bin", {{"units", {"energy=eV"}}});
  EXPECT_THAT(result.text, AllOf(HasSubstr("3 structures of 2 files with 4 atoms; train: 3 structures"),
                                 HasSubstr("out/p.bin and"), HasSubstr("energy of structures, 1 column, eV")));
  const GraphsDataset dataset(folder / "out/p");
  dataset.check();
  const GraphsDescription& all = dataset.description();
  EXPECT_EQ(all.sources, (std::vector<std::string>{first, second}));
  EXPECT_THAT(dataset.part("train"), ElementsAre(0, 1, 2));
  EXPECT_TRUE(dataset.part("test").empty());
  const GraphView water = dataset.structure(0), helium = dataset.structure(1), hydrogen = dataset.structure(2);
  EXPECT_THAT(water.species, ElementsAre(8, 1));
  EXPECT_THAT(water.positions, ElementsAre(0, 0, 0, 0, 0, 1));
  EXPECT_EQ(water.cell.periodic, (std::array<bool, 3>{true, false, false}));
  EXPECT_EQ(water.cell.vectors[2], (Vector3{0, 0, 9}));
  EXPECT_THAT(helium.positions, ElementsAre(4, 5, 6));
  EXPECT_FALSE(helium.cell.is_periodic());
  EXPECT_EQ(helium.number, 1);
  EXPECT_EQ(hydrogen.source, 1);
  EXPECT_EQ(hydrogen.number, 0);
  ASSERT_EQ(all.properties.size(), 3u);
  const int64_t charge = all.find("charge", GraphLevel::structure);
  EXPECT_EQ(all.properties[static_cast<size_t>(charge)].structures_without, 2);
  EXPECT_THAT(dataset.values(charge, 1), ElementsAre(1));
  const int64_t energy = all.find("energy", GraphLevel::structure), forces = all.find("forces", GraphLevel::atom);
  EXPECT_EQ(all.find("forces", GraphLevel::structure), -1);
  EXPECT_THAT(dataset.values(energy, 1), ElementsAre(5));
  EXPECT_THAT(dataset.values(forces, 0), ElementsAre(1, 2, 3, -1, -2, -3));
  EXPECT_THAT(dataset.values(forces, 2), ElementsAre(2, 0, 0));
  // -3, 5 and 1: mean 1, mean square distance 32/3.
  const GraphProperty& described = all.properties[static_cast<size_t>(energy)];
  EXPECT_EQ(described.units, "eV");
  EXPECT_THAT(described.means, ElementsAre(1));
  EXPECT_DOUBLE_EQ(described.deviations.at(0), std::sqrt(32.0 / 3));
  // Forces along x: 1, -1, 0, 2.
  EXPECT_DOUBLE_EQ(all.properties[static_cast<size_t>(forces)].means.at(0), 0.5);
  EXPECT_EQ(all.statistics.atoms_of_element, (std::map<std::string, int64_t>{{"H", 2}, {"He", 1}, {"O", 1}}));
  EXPECT_DOUBLE_EQ(all.statistics.mean_atoms, 4.0 / 3);
  EXPECT_EQ(all.statistics.most_atoms, 2);
  EXPECT_THAT(GraphsPreparation().inspect(folder / "out/p").text, HasSubstr("all checksums are right"));
}

// Frames of `count` structures of one hydrogen atom and one other, whose element and place depend on the number.
std::string many_frames(int64_t count, int64_t begin = 0) {
  std::string text;
  for (int64_t i = begin; i < begin + count; ++i) {
    text += fmt::format("2\nenergy={} Properties=species:S:1:pos:R:3\n{} 0 0 0\nH 0 0 {}\n", i,
                        std::array{"O", "N", "C", "F", "S"}[static_cast<size_t>(i % 5)],
                        1 + 0.001 * static_cast<double>(i));
  }
  return text;
}

TEST(GraphsDataset, DoesNotDependOnTheThreads) {
  const TemporaryFolder folder;
  // Three MiB of text, so that there are several pieces.
  const std::string input = folder.write("many.xyz", many_frames(50000));
  prepare_graphs({input}, folder / "one", {{"split", {"0.5", "0.5"}}}, 1);
  prepare_graphs({input}, folder / "three", {{"split", {"0.5", "0.5"}}}, 3);
  EXPECT_TRUE(read_text(folder / "one.bin") == read_text(folder / "three.bin"));
  EXPECT_EQ(read_text(folder / "one.json"), read_text(folder / "three.json"));
  const GraphsDataset dataset(folder / "one");
  EXPECT_EQ(dataset.structures(), 50000);
  for (const int64_t k : {0, 31234, 49999}) {
    EXPECT_EQ(dataset.structure(k).number, k);
    EXPECT_THAT(dataset.values(0, k), ElementsAre(static_cast<double>(k)));
  }
}

TEST(GraphsDataset, PartsHaveTheirSharesAndKeepGroupsTogether) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.xyz", many_frames(60)), b = folder.write("b.xyz", many_frames(30, 60)),
                    c = folder.write("c.xyz", many_frames(10));
  const std::vector<std::string> shares = {"0.8", "0.1", "0.1"};
  const auto parts_of = [&](const GraphFlags& flags) {
    prepare_graphs({a, b, c}, folder / "p", flags);
    const GraphsDataset dataset(folder / "p");
    std::vector<int> parts(100, -1);
    for (int part = 0; part < 3; ++part) {
      for (const int64_t k : dataset.part(graph_splits[static_cast<size_t>(part)])) {
        EXPECT_EQ(parts[static_cast<size_t>(k)], -1);
        parts[static_cast<size_t>(k)] = part;
      }
    }
    EXPECT_EQ(std::ranges::count(parts, -1), 0);
    return parts;
  };
  const std::vector<int> by_structure = parts_of({{"split", shares}, {"seed", {"7"}}});
  EXPECT_NEAR(std::ranges::count(by_structure, 0), 80, 2);
  EXPECT_NEAR(std::ranges::count(by_structure, 2), 10, 2);
  // The ten structures of c are equal to the first ten of a.
  for (size_t k = 0; k < 10; ++k) EXPECT_EQ(by_structure[k], by_structure[90 + k]);
  EXPECT_EQ(by_structure, parts_of({{"split", shares}, {"seed", {"7"}}}));
  EXPECT_NE(by_structure, parts_of({{"split", shares}, {"seed", {"8"}}}));
  const std::vector<int> by_composition = parts_of({{"split", {"0.6", "0.2", "0.2"}}, {"split-by", {"composition"}}});
  for (size_t k = 5; k < 100; ++k) EXPECT_EQ(by_composition[k], by_composition[k % 5]);
  EXPECT_EQ(std::ranges::count(by_composition, 1), 20);
  const std::vector<int> by_source = parts_of({{"split", {"0.5", "0.25", "0.25"}}, {"split-by", {"source"}}});
  EXPECT_EQ(std::set<int>(by_source.begin(), by_source.begin() + 60).size(), 1u);
  EXPECT_EQ((std::set<int>{by_source[0], by_source[60], by_source[90]}), (std::set<int>{0, 1, 2}));
}

TEST(GraphsDataset, LoadsOnOneMeshAreDifferentStructuresUnlessTheirGeometryIsToStayTogether) {
  const TemporaryFolder folder;
  std::string text;
  for (int load = 0; load < 100; ++load) {
    text += fmt::format("2\nProperties=species:S:1:pos:R:3:load:R:1\nH 0 0 0 {}\nH 0 0 1 1\n", load / 2);
  }
  const std::string file = folder.write("loads.xyz", text);
  const GraphFlags thirds = {{"split", {"0.6", "0.2", "0.2"}}};
  prepare_graphs({file}, folder / "p", thirds);
  const GraphsDataset dataset(folder / "p");
  EXPECT_EQ(dataset.part("train").size(), 60u);
  EXPECT_EQ(dataset.part("test").size(), 20u);
  // Two with equal loads are one structure twice.
  for (const int64_t k : dataset.part("test")) {
    EXPECT_TRUE(std::ranges::binary_search(dataset.part("test"), k % 2 == 0 ? k + 1 : k - 1)) << k;
  }
  GraphFlags by_geometry = thirds;
  by_geometry["split-by"] = {"geometry"};
  EXPECT_THAT(refused_graphs(folder, {file}, by_geometry), HasSubstr("none of 100 structures in 1 group"));
}

TEST(GraphsDataset, StatisticsAreThoseOfTheTrainingPart) {
  const TemporaryFolder folder;
  prepare_graphs({folder.write("a.xyz", many_frames(20))}, folder / "p", {{"split", {"0.5", "0.25", "0.25"}}});
  const GraphsDataset dataset(folder / "p");
  double sum = 0;
  std::map<std::string, int64_t> elements;
  for (const int64_t k : dataset.part("train")) {
    sum += dataset.values(0, k)[0];
    ++elements["H"];
    ++elements[std::array{"O", "N", "C", "F", "S"}[static_cast<size_t>(k % 5)]];
  }
  EXPECT_EQ(dataset.description().statistics.structures, 10);
  EXPECT_NEAR(dataset.description().properties[0].means[0], sum / 10, 1e-13);
  EXPECT_EQ(dataset.description().statistics.atoms_of_element, elements);
}

TEST(GraphsPreparation, NamesAllProblemsByFileAndStructure) {
  const TemporaryFolder folder;
  const std::string good = "1\nenergy=1\nH 0 0 0\n";
  const std::string a =
      folder.write("in/a.xyz", good + "2\nenergy=1\nH 0 0 0\nO 0 0 0.4\n" + "1\nenergy=inf\nH 0 0 0\n" +
                                   "1\n\nH 0 0 0\n" + good + "1\nenergy=1 Lattice=\"0.3 0 0 0 5 0 0 0 5\"\nFe 0 0 0\n" +
                                   "1\nenergy=2\nH 0 0 inf\n" + "0\nenergy=1\n" + "1\nenergy=1\nQ 0 0 0\n");
  const std::string b = folder.write("in/b.xyz", good + "3\nenergy=1\nH 0 0 0\n"), c = folder.write("in/c.xyz", "\n");
  const std::string message = refused_graphs(folder, {folder / "in"}, {{"labels", {"energy"}}});
  for (const std::string& part :
       {a + ": structure 2: atoms 1 (H) and 2 (O) are nearer than 0.5 angstrom", a + ": structure 3: energy is inf",
        a + ": structure 4: has no energy", a + ": structure 6: atom 1 (Fe) and its own image are nearer",
        a + ": structure 7: the position of atom 1 is not finite", a + ": structure 8: has no atoms",
        a + ": structure 9: line 3: Q is no element", b + ": structure 2 ends after 1 of 3 atoms",
        c + " has no structure"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, AllOf(HasSubstr("9 "), Not(HasSubstr("structure 5"))));
}

TEST(GraphsPreparation, RefusesFlagsThatMeanNothing) {
  const TemporaryFolder folder;
  const std::string one = folder.write("a.xyz", "1\nenergy=1\nH 0 0 0\n");
  const auto refused = [&](const GraphFlags& flags) { return refused_graphs(folder, {one}, flags); };
  EXPECT_THAT(refused({{"split", {"0.8", "0.1"}}}), HasSubstr("whose sum is 1"));
  EXPECT_THAT(refused({{"split", {"0.5", "0.5"}}}), HasSubstr("the part validation with the share 0.5 gets none of 1"));
  EXPECT_THAT(refused({{"seed", {"3"}}}), HasSubstr("give it too"));
  EXPECT_THAT(refused({{"split", {"1", "0"}}, {"split-by", {"colour"}}}), HasSubstr("composition"));
  EXPECT_THAT(refused({{"units", {"forces=eV/angstrom"}}}), HasSubstr("there is no property forces"));
  EXPECT_THAT(refused({{"units", {"energy"}}}), HasSubstr("energy=eV"));
  EXPECT_THAT(refused({{"least-distance", {"-1"}}}), HasSubstr("from 0"));
  EXPECT_THAT(refused_graphs(folder, {folder.write("a.pdb", "")}), HasSubstr("the names end with .xyz"));
  EXPECT_THAT(refused_graphs(folder, {one, one}), HasSubstr("is given twice"));
}

TEST(GraphsDataset, IsRefusedWhereItIsDamaged) {
  const TemporaryFolder folder;
  prepare_graphs({folder.write("a.xyz", two_frames)}, folder / "p");
  const auto refused = [&] { return user_error([&] { GraphsDataset(folder / "p").check(); }); };
  EXPECT_EQ(refused(), "");
  const std::string whole = read_text(folder / "p.bin");
  folder.write("p.bin", whole.substr(0, whole.size() - 8));
  EXPECT_THAT(refused(), HasSubstr("it was cut off"));
  std::string changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  folder.write("p.bin", changed);
  EXPECT_THAT(refused(), HasSubstr("another checksum"));
  folder.write("p.bin", whole);
  std::string description = read_text(folder / "p.json");
  description.replace(description.find("\"structures\": 2"), 15, "\"structures\": 3");
  folder.write("p.json", description);
  EXPECT_THAT(refused(), HasSubstr("describes another array"));
  folder.write("p.json", "{}");
  EXPECT_THAT(refused(), HasSubstr("does not describe prepared graphs"));
  EXPECT_THAT(user_error([&] { GraphsDataset(folder / "q"); }), HasSubstr("does not exist"));
}

TEST(GraphsAgainstAse, WhatAseWritesIsWhatIsPreparedAndNumpyReads) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_graph_cases(folder, {"write_frames", folder.path().string()}), "");
  prepare_graphs({folder / "frames.extxyz"}, folder / "frames", {{"labels", {"energy", "forces"}}});
  EXPECT_THAT(run_graph_cases(
                  folder, {"compare_dataset", folder.path().string(), (tests::source_dir() / "docs/data.md").string()}),
              HasSubstr("frames are the same"));
}

}  // namespace
}  // namespace terrace::data
