// Neighbour lists are those of the definition, for every periodicity, and those of ASE and vesin for real structures.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <tuple>

#include "terrace/data/graphs/formats/extended_xyz.h"
#include "terrace/data/graphs/neighbours.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

using Edge = std::tuple<int32_t, int32_t, std::array<int32_t, 3>>;

std::vector<Edge> edges_of(const NeighbourList& list) {
  std::vector<Edge> edges;
  for (size_t e = 0; e < list.receivers.size(); ++e) {
    edges.emplace_back(list.receivers[e], list.senders[e], list.shifts[e]);
  }
  return edges;
}

double distance_by_definition(std::span<const double> positions, const Cell& cell, const Edge& edge) {
  const auto& [i, j, shift] = edge;
  double sum = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    double moved = 0;
    for (size_t k = 0; k < 3; ++k) moved += shift[k] * cell.vectors[k][axis];
    const double component =
        positions[3 * static_cast<size_t>(j) + axis] - positions[3 * static_cast<size_t>(i) + axis] + moved;
    sum += component * component;
  }
  return std::sqrt(sum);
}

// Every pair with every shift up to `most` cells in each periodic direction.
std::vector<Edge> brute_force(std::span<const double> positions, const Cell& cell, double cutoff, int32_t most) {
  std::array<int32_t, 3> reach = {};
  for (size_t k = 0; k < 3; ++k) reach[k] = cell.periodic[k] ? most : 0;
  std::vector<Edge> edges;
  const auto atoms = static_cast<int32_t>(positions.size() / 3);
  for (int32_t i = 0; i < atoms; ++i) {
    for (int32_t j = 0; j < atoms; ++j) {
      for (int32_t a = -reach[0]; a <= reach[0]; ++a) {
        for (int32_t b = -reach[1]; b <= reach[1]; ++b) {
          for (int32_t c = -reach[2]; c <= reach[2]; ++c) {
            const Edge edge = {i, j, {a, b, c}};
            const bool is_itself = i == j && a == 0 && b == 0 && c == 0;
            if (!is_itself && distance_by_definition(positions, cell, edge) < cutoff) edges.push_back(edge);
          }
        }
      }
    }
  }
  return edges;
}

struct RandomStructure {
  Cell cell = {};
  std::vector<double> positions = {};
};

// A skewed cell of heights from about 2 angstrom up, and atoms up to two cells outside.
RandomStructure random_structure(uint32_t seed, int periodicity, size_t atoms) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> skew(-0.6, 0.6), size(3, 6), fraction(-2, 3);
  RandomStructure structure;
  for (size_t k = 0; k < 3; ++k) {
    const double edge = size(generator);
    for (size_t axis = 0; axis < 3; ++axis) structure.cell.vectors[k][axis] = edge * (axis == k ? 1 : skew(generator));
    structure.cell.periodic[k] = ((periodicity >> k) & 1) != 0;
  }
  for (size_t atom = 0; atom < atoms; ++atom) {
    const Vector3 at = {fraction(generator), fraction(generator), fraction(generator)};
    for (size_t axis = 0; axis < 3; ++axis) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += at[k] * structure.cell.vectors[k][axis];
      structure.positions.push_back(sum);
    }
  }
  return structure;
}

class NeighboursOfEveryPeriodicity : public testing::TestWithParam<int> {};

TEST_P(NeighboursOfEveryPeriodicity, AreThoseOfTheDefinitionInSkewedCells) {
  size_t found = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const RandomStructure made = random_structure(seed, GetParam(), 1 + 2 * seed);
    if (!problem_of(made.cell).empty()) continue;
    for (const double cutoff : {1.3, 4.1, 7.7}) {
      const std::vector<Edge> wanted = brute_force(made.positions, made.cell, cutoff, 12);
      const NeighbourList list = find_neighbours(made.positions, made.cell, {.cutoff = cutoff});
      ASSERT_EQ(edges_of(list), wanted) << "seed " << seed << ", cutoff " << cutoff;
      found += wanted.size();
    }
  }
  EXPECT_GT(found, 20u);
}

INSTANTIATE_TEST_SUITE_P(All, NeighboursOfEveryPeriodicity, testing::Range(0, 8));

TEST(Neighbours, OfCopperWithOneAtomAreItsFortyTwoImages) {
  // Shells of the face-centred cubic lattice: 12 at a/sqrt(2), 6 at a, 24 at a sqrt(3/2), then 12 at a sqrt(2) = 5.1.
  const double half = 3.61 / 2;
  const Cell cell = {{{{0, half, half}, {half, 0, half}, {half, half, 0}}}, {true, true, true}};
  const NeighbourList list = find_neighbours(std::vector<double>{0, 0, 0}, cell, {.cutoff = 5});
  EXPECT_EQ(list.edges(), 12 + 6 + 24);
  EXPECT_EQ(list.first_edge, (std::vector<int64_t>{0, 42}));
  EXPECT_TRUE(std::ranges::all_of(list.senders, [](int32_t sender) { return sender == 0; }));
}

TEST(Neighbours, AreNearerThanTheCutoffAndNotAtIt) {
  const std::vector<double> positions = {0, 0, 0, 3, 4, 0};
  EXPECT_EQ(find_neighbours(positions, {}, {.cutoff = 5}).edges(), 0);
  EXPECT_EQ(find_neighbours(positions, {}, {.cutoff = std::nextafter(5, 6)}).edges(), 2);
}

TEST(Neighbours, OfNoAtomAndOfOneAloneAreNone) {
  EXPECT_EQ(find_neighbours({}, {}, {}).first_edge, std::vector<int64_t>{0});
  EXPECT_EQ(find_neighbours(std::vector<double>{1, 2, 3}, {}, {}).first_edge, (std::vector<int64_t>{0, 0}));
}

TEST(Neighbours, OfManyAtomsAreSortedAndHaveEachPairInBothDirections) {
  // Many bins, where the small structures have few; 1,500 atoms, of which brute force with images is possible too.
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> place(0, 1);
  const Cell cell = {{{{31, 0, 0}, {9, 27, 0}, {-7, 5, 24}}}, {true, false, true}};
  std::vector<double> positions;
  for (int atom = 0; atom < 1500; ++atom) {
    const Vector3 at = {place(generator), place(generator), place(generator)};
    for (size_t axis = 0; axis < 3; ++axis) {
      positions.push_back(at[0] * cell.vectors[0][axis] + at[1] * cell.vectors[1][axis] +
                          at[2] * cell.vectors[2][axis]);
    }
  }
  const std::vector<Edge> edges = edges_of(find_neighbours(positions, cell, {.cutoff = 4}));
  EXPECT_EQ(edges, brute_force(positions, cell, 4, 1));
  const std::set<Edge> all(edges.begin(), edges.end());
  for (const auto& [i, j, shift] : edges) {
    ASSERT_TRUE(all.contains({j, i, {-shift[0], -shift[1], -shift[2]}}));
  }
}

TEST(Neighbours, WithACapAreTheNearestAndTiesGoByIndex) {
  // Atom 0 has 4 and 2 at one distance, 1 nearer than both, and 3 beyond; rounding of 1e-9 decides no tie.
  const std::vector<double> positions = {0, 0, 0, 1, 0, 0, -2 - 1e-9, 0, 0, 0, 3, 0, 0, -2, 0};
  const NeighbourList list = find_neighbours(positions, {}, {.cutoff = 3.5, .max_neighbours = 2});
  const std::vector<int32_t> of_first(list.senders.begin(), list.senders.begin() + list.first_edge[1]);
  EXPECT_EQ(of_first, (std::vector<int32_t>{1, 2}));
  for (size_t atom = 0; atom < 5; ++atom) EXPECT_LE(list.first_edge[atom + 1] - list.first_edge[atom], 2);
}

TEST(Neighbours, AreRefusedForImpossibleCellsCutoffsAndPositions) {
  const std::vector<double> one = {0, 0, 0};
  const auto refused = [&](const std::vector<double>& positions, const Cell& cell, double cutoff) {
    return user_error([&] { find_neighbours(positions, cell, {.cutoff = cutoff}); });
  };
  EXPECT_THAT(refused(one, {}, 0), HasSubstr("greater than 0"));
  EXPECT_THAT(refused(one, {}, NAN), HasSubstr("greater than 0"));
  EXPECT_THAT(refused({0, NAN, 0}, {}, 5), HasSubstr("atom 0"));
  EXPECT_THAT(refused(one, {{}, {true, false, false}}, 5), HasSubstr("vector 1 of the cell is periodic and zero"));
  EXPECT_THAT(refused(one, {{{{1, 0, 0}, {2, 0, 0}, {0, 0, 1}}}, {true, true, false}}, 5),
              HasSubstr("one plane or line"));
  EXPECT_THAT(refused(one, {{{{1e-3, 0, 0}, {0, 5, 0}, {0, 0, 5}}}, {true, true, true}}, 5),
              HasSubstr("a cutoff of at most 1"));
}

// Writes the edges of the structures in structures.txt to edges.txt.
void write_edges(const TemporaryFolder& folder) {
  std::ifstream structures(folder / "structures.txt");
  std::ofstream edges(folder / "edges.txt");
  size_t atoms = 0;
  double cutoff = 0;
  while (structures >> atoms >> cutoff) {
    Cell cell;
    for (Vector3& vector : cell.vectors) structures >> vector[0] >> vector[1] >> vector[2];
    for (bool& periodic : cell.periodic) structures >> periodic;
    std::vector<double> positions(3 * atoms);
    for (double& number : positions) structures >> number;
    const NeighbourList list = find_neighbours(positions, cell, {.cutoff = cutoff});
    edges << list.edges() << "\n";
    for (const auto& [i, j, shift] : edges_of(list)) {
      edges << i << " " << j << " " << shift[0] << " " << shift[1] << " " << shift[2] << "\n";
    }
  }
}

// Python writes structures with their cells, and compares the sets (i, j, S) with those of ASE and vesin.
TEST(Neighbours, AreThoseOfAseAndVesinForMoleculesCrystalsAndSurfaces) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_graph_cases(folder, {"write_structures", folder.path().string()}), "");
  write_edges(folder);
  EXPECT_THAT(run_graph_cases(folder, {"compare_edges", folder.path().string()}),
              HasSubstr("structures with equal edges"));
}

// 1,000 of them where TERRACE_ALL_MOLECULES is set, as the test house.molecules does; else 50.
TEST(MoleculesAgainstVesin, NeighboursAreThoseOfVesin) {
  const std::string molecules = fetched_molecules();
  if (molecules.empty()) GTEST_SKIP() << "the package with the molecules cannot be fetched";
  const TemporaryFolder folder;
  std::ofstream output(folder / "structures.txt");
  const int64_t compared = std::getenv("TERRACE_ALL_MOLECULES") == nullptr ? 50 : 1000;
  int64_t count = 0, written = 0;
  const std::string text = read_text(molecules);
  for (std::string_view rest = text; const size_t bytes = frame_bytes(rest, true); ++count) {
    if (count % (11'000 / compared) == 0 && written < compared) {
      const Structure molecule = parse_extended_xyz(rest.substr(0, bytes));
      output << fmt::format("{} 5\n0 0 0 0 0 0 0 0 0\n0 0 0\n{}\n", molecule.atoms(),
                            fmt::join(molecule.positions, " "));
      ++written;
    }
    rest.remove_prefix(bytes);
  }
  output.close();
  EXPECT_EQ(count, 11'204);
  write_edges(folder);
  EXPECT_THAT(run_graph_cases(folder, {"compare_molecules", folder.path().string()}),
              HasSubstr(fmt::format("{} molecules with ", compared)));
}

}  // namespace
}  // namespace terrace::data
