// Offsets and scales of labels are those of closed forms, and numbers of edges are counted once and kept.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <thread>

#include "terrace/data/graphs/dataset/graphs_statistics.h"
#include "terrace/data/graphs/neighbours.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint8_t hydrogen = 1, carbon = 6, oxygen = 8;

TEST(ElementFit, RecoversNumbersThatTheDataDecide) {
  // Numbers are per atom as in the statistics of energies, and of very different size.
  ElementFit fit(2);
  for (const std::vector<uint8_t>& species : std::vector<std::vector<uint8_t>>{
           {1, 1, 8}, {6, 1, 1, 1, 1}, {6, 8, 8}, {6, 8}, {1, 1}, {6, 6, 1, 1, 1, 1, 1, 1, 8}}) {
    std::array<double, 2> sums = {};
    for (const uint8_t element : species) {
      sums[0] += element == hydrogen ? -13.6 : element == carbon ? -1029.5 : -2041.8;
      sums[1] += element;
    }
    fit.add(species, sums, 1 / static_cast<double>(species.size()));
  }
  const ElementNumbers numbers = fit.solve();
  EXPECT_EQ(numbers.size(), 3u);
  EXPECT_THAT(numbers.at(hydrogen), ElementsAre(DoubleNear(-13.6, 1e-9), DoubleNear(1, 1e-12)));
  EXPECT_THAT(numbers.at(carbon), ElementsAre(DoubleNear(-1029.5, 1e-9), DoubleNear(6, 1e-12)));
  EXPECT_THAT(numbers.at(oxygen), ElementsAre(DoubleNear(-2041.8, 1e-9), DoubleNear(8, 1e-12)));
}

// A line through three points that are on none: y = 1, 2, 4 for 1, 2 and 3 atoms has the least squares at
// (1 + 2 * 2 + 3 * 4) / (1 + 4 + 9) = 17/14; with weights 1/n at the mean of y/n, (1 + 1 + 4/3) / 3 = 10/9.
TEST(ElementFit, MinimisesTheWeightedSquares) {
  for (const bool per_atom : {false, true}) {
    ElementFit fit(1);
    double n = 0;
    for (const double y : {1.0, 2.0, 4.0}) {
      ++n;
      fit.add(std::vector<uint8_t>(static_cast<size_t>(n), carbon), std::array{y}, per_atom ? 1 / n : 1);
    }
    EXPECT_NEAR(fit.solve().at(carbon)[0], per_atom ? 10.0 / 9 : 17.0 / 14, 1e-12);
  }
}

// Water alone leaves one combination of H and O open: each then has half of the energy.
TEST(ElementFit, DividesEquallyWhatTheDataLeaveOpen) {
  ElementFit fit(1);
  for (int i = 0; i < 4; ++i) fit.add(std::array{hydrogen, oxygen, hydrogen}, std::array{-12.0}, 1.0 / 3);
  const ElementNumbers numbers = fit.solve();
  EXPECT_NEAR(numbers.at(hydrogen)[0], -3, 1e-9);
  EXPECT_NEAR(numbers.at(oxygen)[0], -6, 1e-9);
  EXPECT_THAT(sum_of_elements(numbers, std::array{oxygen, hydrogen, hydrogen, carbon}, 1),
              ElementsAre(DoubleNear(-12, 1e-9)));
}

GraphsStatistics statistics_of_files(const TemporaryFolder& folder, const std::vector<std::string>& texts,
                                     const GraphsRequest& request) {
  std::vector<GraphsDataset> datasets;
  std::vector<EdgeCounts> counts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string prefix = folder / fmt::format("d{}", i);
    prepare_graphs({folder.write(fmt::format("d{}.xyz", i), texts[i])}, prefix);
    datasets.emplace_back(prefix);
    counts.push_back(edge_counts(datasets.back(), request));
  }
  std::vector<const GraphsDataset*> of_datasets;
  std::vector<const EdgeCounts*> of_counts;
  for (size_t i = 0; i < texts.size(); ++i) {
    of_datasets.push_back(&datasets[i]);
    of_counts.push_back(&counts[i]);
  }
  return compute_graphs_statistics(of_datasets, of_counts, request);
}

const std::string helium_and_pair =
    "1\nenergy=2 Properties=species:S:1:pos:R:3:forces:R:3\nHe 0 0 0 3 0 0\n"
    "2\nenergy=12 Properties=species:S:1:pos:R:3:forces:R:3\nHe 0 0 0 0 3 0\nNe 0 0 1 0 0 6\n";

TEST(GraphsStatistics, ScalesAreRootsOfMeanSquares) {
  const TemporaryFolder folder;
  GraphsRequest request{
      .radius = 2,
      .labels = {{.name = "plain", .property = "energy"},
                 {.name = "mean", .property = "energy", .offset = LabelOffset::mean},
                 {.name = "atom", .property = "energy", .offset = LabelOffset::mean, .per_atom = true},
                 {.name = "as", .property = "energy", .scaled_as = "forces"},
                 {.name = "fitted", .property = "energy", .offset = LabelOffset::elements},
                 {.name = "forces", .property = "forces", .level = GraphLevel::atom, .width = 3}}};
  const GraphsStatistics statistics = statistics_of_files(folder, {helium_and_pair}, request);
  // 2 and 12; their mean is 7; per atom 2 and 6 with the mean 4.
  EXPECT_DOUBLE_EQ(statistics.labels.at("plain").scale, std::sqrt((4.0 + 144) / 2));
  EXPECT_DOUBLE_EQ(statistics.labels.at("mean").scale, 5);
  EXPECT_DOUBLE_EQ(statistics.labels.at("atom").scale, 2);
  EXPECT_THAT(statistics.labels.at("atom").offsets_of(0, GraphLevel::structure, 1, std::array<uint8_t, 3>{2, 2, 10}),
              ElementsAre(12));
  // The scale is that of nine components.
  EXPECT_DOUBLE_EQ(statistics.labels.at("forces").scale, std::sqrt((9.0 + 9 + 36) / 9));
  EXPECT_EQ(statistics.labels.at("as").scale, statistics.labels.at("forces").scale);
  // He 2, Ne 10: nothing is left, or rounding.
  EXPECT_NEAR(statistics.labels.at("fitted").offsets[0]->of_elements.at(10).at(0), 10, 1e-9);
  // One atom of degree 0, two of degree 1.
  EXPECT_THAT(statistics.degree_means,
              ElementsAre(DoubleNear(2 * std::log(2.0) / 3, 1e-15), DoubleNear(2.0 / 3, 1e-15)));
  EXPECT_THAT(statistics.elements, ElementsAre(2, 10));
  EXPECT_THAT(statistics.unknown_elements(std::array<uint8_t, 4>{10, 26, 3, 26}), ElementsAre(3, 26));
}

// Three atoms, two of them of iron, which no structure of training has.
TEST(GraphsStatistics, ElementsThatWereNotThereLeaveTheScaleAndAnElementsNumberOpen) {
  const LabelStatistics plain{.scale = 3, .offsets = {OffsetOfDataset{}}};
  const std::array<uint8_t, 3> species = {26, 2, 26}, known = {2, 2, 10};
  const std::array<uint8_t, 1> iron = {26};
  const auto of_structure = [&](const LabelStatistics& statistics) {
    return statistics.unlearned(0, GraphLevel::structure, 1, species, iron);
  };
  EXPECT_THAT(of_structure(plain), ElementsAre(3));
  LabelStatistics fitted = plain;
  fitted.offset = LabelOffset::elements;
  fitted.offsets[0]->of_elements = {{2, {4}}, {10, {8}}};  // of squares the mean is 40
  EXPECT_THAT(of_structure(fitted), ElementsAre(DoubleNear(std::sqrt(9 + 4 * 40.0), 1e-12)));
  fitted.per_atom = true;
  EXPECT_THAT(of_structure(fitted), ElementsAre(DoubleNear(std::sqrt(4 * 9 + 4 * 40.0), 1e-12)));
  EXPECT_THAT(fitted.unlearned(0, GraphLevel::structure, 1, known, {}), ElementsAre(0));
  EXPECT_THAT(plain.unlearned(0, GraphLevel::atom, 2, species, iron), ElementsAre(3, 3, 0, 0, 3, 3));
}

TEST(GraphsStatistics, EqualLabelsHaveTheScaleOne) {
  const TemporaryFolder folder;
  const GraphsRequest request{.labels = {{.name = "e", .property = "energy", .offset = LabelOffset::mean}}};
  EXPECT_EQ(statistics_of_files(folder, {"1\nenergy=3\nH 0 0 0\n1\nenergy=3\nH 0 0 0\n"}, request).labels.at("e").scale,
            1);
}

// Two programs with other zeros of energy: the offsets are their own, the scale is common.
TEST(GraphsStatistics, EachDatasetHasItsOffsets) {
  const TemporaryFolder folder;
  GraphsRequest request{.labels = {{.name = "e", .property = "energy", .offset = LabelOffset::mean},
                                   {.name = "f", .property = "forces", .level = GraphLevel::atom, .width = 3}}};
  const GraphsStatistics statistics =
      statistics_of_files(folder, {"1\nenergy=1\nH 0 0 0\n1\nenergy=3\nHe 0 0 0\n", helium_and_pair}, request);
  const LabelStatistics& energy = statistics.labels.at("e");
  EXPECT_THAT(energy.offsets.at(0)->mean, ElementsAre(2));
  EXPECT_THAT(energy.offsets.at(1)->mean, ElementsAre(7));
  EXPECT_DOUBLE_EQ(energy.scale, std::sqrt((1.0 + 1 + 25 + 25) / 4));
  EXPECT_FALSE(statistics.labels.at("f").offsets.at(0).has_value());
  EXPECT_EQ(statistics.find_dataset("anywhere/d1"), 1u);
  EXPECT_FALSE(statistics.find_dataset("d2").has_value());
  // Statistics that a checkpoint keeps are read back to the bit.
  EXPECT_EQ(read_graphs_statistics(folder.write("s.json", statistics.text())), statistics);
  const std::vector<std::string> problems = statistics.problems_with(
      {.labels = {{.name = "e", .property = "energy"}, {.name = "g", .property = "gap"}}}, "s.json");
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("another offset or scale"), HasSubstr("no offset and scale of the label g")));
}

TEST(GraphsStatistics, FilesThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    return user_error([&] { read_graphs_statistics(folder.write("s.json", text)); });
  };
  EXPECT_THAT(refused("[]"), HasSubstr("no statistics of graphs"));
  const std::string head = "{\"format\": \"terrace graph statistics\", \"version\": 1, \"datasets\": [\"a\"], ";
  EXPECT_THAT(refused(head + "\"degree_means\": [1, 2]}"), HasSubstr("is incomplete"));
  EXPECT_THAT(refused(head + "\"degree_means\": [1, 2], \"elements\": [\"Qq\"], \"labels\": {}}"),
              HasSubstr("no element"));
  EXPECT_THAT(
      refused(head +
              "\"degree_means\": [1, 2], \"elements\": [], \"labels\": {\"e\": {\"property\": \"e\", "
              "\"offset\": \"mean\", \"per_atom\": false, \"scaled_as\": \"\", \"scale\": 0, \"offsets\": [null]}}}"),
      HasSubstr("the scale 0"));
  EXPECT_THAT(user_error([&] { read_graphs_statistics(folder / "none.json"); }), HasSubstr("does not exist"));
}

class EdgeCountsOfFile : public testing::Test {
 protected:
  EdgeCountsOfFile() {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += fmt::format("3\n{}\nH 0 0 0\nO 0 0 {}\nH 0 {} 0\n", i % 4 == 0 ? "Lattice=\"3 0 0 0 7 0 0 0 8\"" : "",
                          1 + 0.01 * i, 1.5 + 0.01 * i);
    }
    prepare_graphs({folder_.write("a.xyz", text)}, folder_ / "a");
  }
  std::filesystem::path path() const { return edge_counts_path(folder_ / "a", request_); }

  TemporaryFolder folder_;
  GraphsRequest request_{.radius = 3.25};
};

TEST_F(EdgeCountsOfFile, AreThoseOfTheNeighbourLists) {
  const GraphsDataset dataset(folder_ / "a");
  for (const int64_t cap : {0, 5}) {
    request_.max_neighbours = cap;
    const EdgeCounts counts = edge_counts(dataset, request_);
    ASSERT_EQ(std::ssize(counts.edges), dataset.structures());
    for (int64_t k = 0; k < dataset.structures(); ++k) {
      const GraphView view = dataset.structure(k);
      const NeighbourList list = find_neighbours(view.positions, view.cell, {.cutoff = 3.25, .max_neighbours = cap});
      double log_degrees = 0;
      for (size_t atom = 0; atom < 3; ++atom) {
        log_degrees += std::log(1 + static_cast<double>(list.first_edge[atom + 1] - list.first_edge[atom]));
      }
      EXPECT_EQ(counts.edges[static_cast<size_t>(k)], list.edges());
      EXPECT_DOUBLE_EQ(counts.log_degrees[static_cast<size_t>(k)], log_degrees);
    }
  }
}

TEST_F(EdgeCountsOfFile, AreKeptForTheirRadiusAndCapAndDataset) {
  const EdgeCounts counted = edge_counts(GraphsDataset(folder_ / "a"), request_);
  ASSERT_TRUE(std::filesystem::exists(path()));
  const auto time = std::filesystem::last_write_time(path());
  EXPECT_EQ(edge_counts(GraphsDataset(folder_ / "a"), request_), counted);
  EXPECT_EQ(std::filesystem::last_write_time(path()), time);
  request_.radius = 2;
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_NE(edge_counts(GraphsDataset(folder_ / "a"), request_), counted);
  // Another dataset of that name is counted again.
  request_.radius = 3.25;
  prepare_graphs({folder_.write("b.xyz", "2\n\nH 0 0 0\nH 0 0 1\n")}, folder_ / "a");
  EXPECT_THAT(edge_counts(GraphsDataset(folder_ / "a"), request_).edges, ElementsAre(2));
}

TEST_F(EdgeCountsOfFile, ADamagedFileIsReplaced) {
  const GraphsDataset dataset(folder_ / "a");
  const EdgeCounts counted = edge_counts(dataset, request_);
  const std::string whole = read_text(path());
  std::string changed = whole;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  for (const std::string& text : {std::string(), std::string("x"), whole.substr(0, whole.size() - 8), changed}) {
    std::filesystem::remove(path());  // whose numbers are those of `counted`
    folder_.write(path().filename(), text);
    EXPECT_EQ(edge_counts(dataset, request_), counted);
    EXPECT_TRUE(read_text(path()) == whole);
  }
}

TEST_F(EdgeCountsOfFile, AreNotNeeded) {
  const GraphsDataset dataset(folder_ / "a");
  std::filesystem::create_directory(path());  // so that nothing can be written there
  const EdgeCounts counted = edge_counts(dataset, request_);
  EXPECT_EQ(edge_counts(dataset, request_), counted);
  EXPECT_TRUE(std::filesystem::is_empty(path()));
  std::filesystem::remove(path());
  EXPECT_EQ(edge_counts(dataset, request_), counted);
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
}

TEST_F(EdgeCountsOfFile, SeveralRanksStartAtOnce) {
  std::array<EdgeCounts, 4> counts;
  {
    std::vector<std::jthread> ranks;
    for (EdgeCounts& own : counts) {
      ranks.emplace_back([&] { own = edge_counts(GraphsDataset(folder_ / "a"), request_); });
    }
  }
  for (const EdgeCounts& own : counts) EXPECT_EQ(own, counts[0]);
  EXPECT_THAT(folder_.names(), ElementsAre("a.bin", path().filename().string(), "a.json", "a.xyz"));
}

TEST_F(EdgeCountsOfFile, AStructureWithoutNeighbourListIsNamed) {
  prepare_graphs({folder_.write("thin.xyz", "1\nLattice=\"0.001 0 0 0 9 0 0 0 9\"\nH 0 0 0\n")}, folder_ / "thin",
                 {{"least-distance", {"0"}}});
  EXPECT_THAT(user_error([&] { edge_counts(GraphsDataset(folder_ / "thin"), request_); }),
              testing::AllOf(HasSubstr("thin: structure 1 (of "), HasSubstr("images of a cell")));
}

}  // namespace
}  // namespace terrace::data
