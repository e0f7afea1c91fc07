// A process that takes over what another one found in the files of graphs reads no whole array of them when it starts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/graphs/dataset/graphs_writer.h"
#include "terrace/data/graphs/graphs_source.h"
#include "tests/data/graph_files.h"
#include "tests/data/zeroed_file.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

const Sizes budget_of_start = {{"atoms", 16}, {"edges", 160}};
const TensorNames tensors_of_start = {"species", "receivers", "senders", "vectors", "degree_means", "targets.energy"};

// Results of a process that opens the files.
struct OpenedGraphs {
  GraphsStatistics statistics = {};
  double average_atoms = 0, average_edges = 0;     // for planning
  std::vector<std::vector<int64_t>> samples = {};  // of the micro-batches of a step
  std::vector<std::vector<std::byte>> bytes = {};  // of their tensors
};

// Changes bytes of a file that stays the same one to stat(): its number, size and time of change.
void overwrite_in_place(const std::filesystem::path& path, uintmax_t offset, const std::string& bytes) {
  const auto time = std::filesystem::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(offset))
      .write(bytes.data(), std::ssize(bytes));
  std::filesystem::last_write_time(path, time);
}

class GraphStartReads : public testing::Test {
 protected:
  GraphStartReads() {
    std::string text;
    for (int k = 0; k < 40; ++k) {
      const int atoms = 1 + k * k % 7;
      text += fmt::format("{}\nenergy={} Properties=species:S:1:pos:R:3:forces:R:3\n", atoms, -1.1 * k - 3.0 * atoms);
      for (int atom = 0; atom < atoms; ++atom) {
        text += fmt::format("{} {} 0.{} 0 {} 0 -0.7\n", atom % 2 == 0 ? "H" : "O", 1.1 * atom, k, 0.3 * k);
      }
    }
    prepare_graphs({folder_.write("a.xyz", text)}, folder_ / "a", {{"split", {"0.7", "0.3"}}});
    prepare_graphs({folder_ / "a.xyz"}, folder_ / "b");
    config_.train = {folder_ / "a", folder_ / "b"};
  }
  ~GraphStartReads() override { take_texts(""); }

  // Paths of nodes whose edges the file gives.
  void use_given_edges() {
    GraphsWriter writer(folder_.path(), {});
    for (int64_t k = 0; k < 30; ++k) {
      const int32_t nodes = 2 + static_cast<int32_t>(k % 5);
      Structure path{.species = std::vector<uint8_t>(static_cast<size_t>(nodes)),
                     .positions = std::vector<double>(3 * static_cast<size_t>(nodes), 0.1),
                     .has_edges = true,
                     .of_structure = {{"energy", {1, {0.3 * static_cast<double>(k)}}}},
                     .of_atoms = {{"forces", {3, std::vector<double>(3 * static_cast<size_t>(nodes), 0.7)}}}};
      for (int32_t node = 1; node < nodes; ++node) {
        path.edges.receivers.push_back(node);
        path.edges.senders.push_back(node - 1);
      }
      EXPECT_EQ(writer.add(path, 0, k), "");
    }
    AtomicFile file(graphs_path(folder_ / "given"));
    const GraphsDescription description = writer.finish(file, {"paths"}, {}, [](uint64_t) {});
    file.commit();
    write_text_atomically(graphs_description_path(folder_ / "given"), description.text());
    config_.train = {folder_ / "given"};
    request_.given_edges = true;
  }

  OpenedGraphs open(bool with_batches = true) const {
    const GraphsSource source(config_, request_, 1, budget_of_start);
    const GraphSizes sizes = sizes_of_graphs(config_, request_);
    OpenedGraphs opened{
        .statistics = source.statistics(), .average_atoms = sizes.average_atoms, .average_edges = sizes.average_edges};
    if (!with_batches) return opened;
    for (const MicroBatch& batch :
         source.micro_batches({.samples = 20, .ranks = 1, .budget = budget_of_start}, tensors_of_start)) {
      opened.samples.push_back(batch.samples);
      for (const auto& [name, tensor] : batch.tensors)
        opened.bytes.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    }
    return opened;
  }

  // The notes that the first process of a run sends to the others.
  std::string noted() const {
    return noted_while([&] { open(); });
  }

  std::filesystem::path counts_path(size_t dataset) const { return edge_counts_path(config_.train[dataset], request_); }

  static void expect_equal(const OpenedGraphs& opened, const OpenedGraphs& expected) {
    EXPECT_EQ(opened.statistics, expected.statistics);
    EXPECT_EQ(opened.statistics.text(), expected.statistics.text());
    EXPECT_EQ(opened.average_atoms, expected.average_atoms);
    EXPECT_EQ(opened.average_edges, expected.average_edges);
  }

  TemporaryFolder folder_;
  GraphsConfig config_;
  GraphsRequest request_{.radius = 4,
                         .labels = {{.name = "energy",
                                     .property = "energy",
                                     .offset = LabelOffset::elements,
                                     .scaled_as = "forces",
                                     .per_atom = true},
                                    {.name = "mean", .property = "energy", .offset = LabelOffset::mean},
                                    {.name = "forces", .property = "forces", .level = GraphLevel::atom, .width = 3}}};
};

TEST_F(GraphStartReads, TheSameBatchesWhereAnotherProcessReadTheArrays) {
  for (const bool given : {false, true}) {
    if (given) use_given_edges();
    const OpenedGraphs expected = open();
    EXPECT_GT(expected.samples.size(), 1u);
    take_texts(noted());
    const OpenedGraphs opened = open();
    expect_equal(opened, expected);
    EXPECT_EQ(opened.samples, expected.samples);
    EXPECT_EQ(opened.bytes, expected.bytes);
  }
}

// Zeros in the place of the arrays show that nothing was read.
TEST_F(GraphStartReads, NoArrayThatAnotherProcessRead) {
  const std::string texts = noted();
  const OpenedGraphs expected = open();
  for (size_t dataset = 0; dataset < 2; ++dataset) {
    zero_in_place(graphs_path(config_.train[dataset]));
    zero_in_place(counts_path(dataset));
  }
  take_texts(texts);
  expect_equal(open(false), expected);
  take_texts("");
  EXPECT_THAT(user_error([&] { open(false); }), HasSubstr("offsets that do not ascend"));
}

TEST_F(GraphStartReads, NoGivenEdgesThatAnotherProcessRead) {
  use_given_edges();
  const std::string texts = noted();
  const OpenedGraphs expected = open();
  zero_in_place(graphs_path(config_.train[0]));
  take_texts(texts);
  expect_equal(open(false), expected);
  take_texts("");
  EXPECT_THAT(user_error([&] { open(false); }), HasSubstr("offsets that do not ascend"));
}

TEST_F(GraphStartReads, NoPositionsForCountsThatCannotBeKept) {
  for (size_t dataset = 0; dataset < 2; ++dataset) std::filesystem::create_directory(counts_path(dataset));
  const std::string texts = noted();
  const OpenedGraphs expected = open();
  for (size_t dataset = 0; dataset < 2; ++dataset) zero_in_place(graphs_path(config_.train[dataset]));
  take_texts(texts);
  expect_equal(open(false), expected);
  EXPECT_TRUE(std::filesystem::is_empty(counts_path(0)));
}

TEST_F(GraphStartReads, AgainWhatHasChanged) {
  const GraphsStatistics before = open().statistics;  // the edges are counted
  take_texts(noted());
  // The energies of b are others, in a file of the same size.
  const GraphsDescription description = read_graphs_description(graphs_description_path(config_.train[1]));
  const auto energy = static_cast<size_t>(description.find("energy", GraphLevel::structure));
  const std::filesystem::path path = graphs_path(config_.train[1]);
  overwrite_in_place(path, description.properties[energy].array.offset, std::string(8, '\0'));
  EXPECT_EQ(open().statistics, before);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::nanoseconds(1));
  EXPECT_NE(open().statistics, before);
  // A file of counts that nobody has checked is checked and replaced.
  const std::string kept = read_text(counts_path(0));
  zero_in_place(counts_path(0));
  std::filesystem::last_write_time(counts_path(0),
                                   std::filesystem::last_write_time(counts_path(0)) + std::chrono::seconds(1));
  open();
  EXPECT_TRUE(read_text(counts_path(0)) == kept);
}

TEST_F(GraphStartReads, AgainForAnotherBudgetAndOtherLabels) {
  take_texts(noted());
  EXPECT_THAT(user_error([&] { GraphsSource(config_, request_, 1, {{"atoms", 3}}); }), HasSubstr("more than 3 atoms"));
  const GraphsStatistics before = open().statistics;
  request_.labels[1].per_atom = true;
  EXPECT_NE(open().statistics, before);
}

TEST_F(GraphStartReads, AndRefusesGivenEdgesOfAtomsThatAreNotThere) {
  use_given_edges();
  const GraphsDescription description = read_graphs_description(graphs_description_path(config_.train[0]));
  for (const char* ends : {"receivers", "senders"}) {
    const uint64_t offset = description.arrays.at(ends).offset;
    // The first structure has one edge, from node 0 to node 1.
    overwrite_in_place(graphs_path(config_.train[0]), offset, std::string("\x02\0\0\0", 4));
    EXPECT_THAT(user_error([&] { open(); }), HasSubstr("edges of atoms that are not there, in structure 1"));
    overwrite_in_place(graphs_path(config_.train[0]), offset, std::string("\0\0\0\0", 4));
  }
  open();
}

}  // namespace
}  // namespace terrace::data
