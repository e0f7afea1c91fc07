// Point sets with given edges are read from numpy's and HDF5's files as they are documented, and become batches with
// their own edges.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "terrace/data/graphs/formats/point_sets.h"
#include "terrace/data/graphs/graphs_source.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

NamedArray array_of(const std::string& name, std::vector<uint64_t> shape, std::vector<double> numbers) {
  return {.name = name, .shape = std::move(shape), .numbers = std::move(numbers)};
}

// A path of three nodes in a plane and a pair.
std::vector<NamedArray> two_graphs() {
  return {array_of("positions", {5, 2}, {0, 0, 1, 0, 2, 1, 0, 0, 0, 3}),
          array_of("edges", {5, 2}, {2, 1, 1, 0, 0, 1, 1, 0, 0, 1}),
          array_of("first_node", {3}, {0, 3, 5}),
          array_of("first_edge", {3}, {0, 3, 5}),
          array_of("node/load", {5}, {1, 2, 3, 4, 5}),
          array_of("edge/width", {5, 2}, {10, 11, 20, 21, 30, 31, 40, 41, 50, 51}),
          array_of("graph/energy", {2}, {-1, -2})};
}

TEST(PointSets, AreCutAtTheirOffsets) {
  const PointSets sets(two_graphs());
  ASSERT_EQ(sets.graphs(), 2);
  const Structure path = sets.structure(0), pair = sets.structure(1);
  EXPECT_THAT(path.positions, ElementsAre(0, 0, 0, 1, 0, 0, 2, 1, 0));
  EXPECT_THAT(path.species, ElementsAre(0, 0, 0));
  EXPECT_THAT(path.edges.senders, ElementsAre(2, 1, 0));
  EXPECT_THAT(path.edges.receivers, ElementsAre(1, 0, 1));
  EXPECT_EQ(path.of_edges.at("width"), (PropertyValues{2, {10, 11, 20, 21, 30, 31}}));
  EXPECT_THAT(pair.positions, ElementsAre(0, 0, 0, 0, 3, 0));
  EXPECT_THAT(pair.edges.senders, ElementsAre(1, 0));
  EXPECT_EQ(pair.of_atoms.at("load"), (PropertyValues{1, {4, 5}}));
  EXPECT_EQ(pair.of_structure.at("energy"), (PropertyValues{1, {-2}}));
}

TEST(PointSets, EdgesMayBeRowsOrColumns) {
  const auto senders = [](std::vector<NamedArray> arrays) {
    arrays.push_back(array_of("positions", {4, 3}, std::vector<double>(12)));
    return PointSets(std::move(arrays)).structure(0).edges.senders;
  };
  EXPECT_THAT(senders({array_of("edges", {3, 2}, {0, 1, 1, 2, 2, 3})}), ElementsAre(0, 1, 2));
  EXPECT_THAT(senders({array_of("edges", {2, 3}, {0, 1, 2, 1, 2, 3})}), ElementsAre(0, 1, 2));
  EXPECT_THAT(senders({array_of("edge_index", {2, 2}, {0, 1, 3, 2})}), ElementsAre(0, 1));
  EXPECT_THAT(user_error([&] { senders({array_of("edges", {2, 2}, {0, 1, 3, 2})}); }), HasSubstr("call it edge_index"));
  EXPECT_THAT(senders({}), ElementsAre());
}

TEST(PointSets, ArraysThatDoNotFitAreNamedTogether) {
  const auto refused = [](const std::string& name, std::vector<uint64_t> shape, std::vector<double> numbers) {
    std::vector<NamedArray> arrays = two_graphs();
    std::erase_if(arrays, [&](const NamedArray& array) { return array.name == name; });
    arrays.push_back(array_of(name, std::move(shape), std::move(numbers)));
    return user_error([&] { PointSets sets(std::move(arrays)); });
  };
  EXPECT_THAT(refused("positions", {5}, std::vector<double>(5)), HasSubstr("positions has the shape [5]"));
  EXPECT_THAT(refused("edges", {5, 3}, std::vector<double>(15)), HasSubstr("it is [edges, 2] or [2, edges]"));
  EXPECT_THAT(refused("edges", {5, 2}, std::vector<double>(10, 0.5)), HasSubstr("edges has the number 0.5 at place 0"));
  EXPECT_THAT(refused("edges", {5, 2}, std::vector<double>(10, -1)), HasSubstr("edges has the number -1"));
  EXPECT_THAT(refused("first_node", {3}, {0, 6, 5}), HasSubstr("first_node does not ascend from 0 to 5"));
  EXPECT_THAT(refused("first_edge", {3}, {0, 3, 4}), HasSubstr("first_edge does not ascend from 0 to 5"));
  EXPECT_THAT(refused("first_edge", {2}, {0, 5}), HasSubstr("2 graphs and first_edge 1"));
  EXPECT_THAT(refused("species", {5}, {1, 2, 3, 4, 119}), HasSubstr("from 0 to 118"));
  EXPECT_THAT(refused("species", {4}, {1, 2, 3, 4}), HasSubstr("4 numbers for 5 nodes"));
  EXPECT_THAT(refused("node/load", {4}, {1, 2, 3, 4}), HasSubstr("node/load has 4 rows, and there are 5 nodes"));
  EXPECT_THAT(refused("graph/energy", {1, 2}, {1, 2}), HasSubstr("graph/energy has 1 rows, and there are 2 graphs"));
  EXPECT_THAT(refused("node/field", {5, 1, 1}, std::vector<double>(5)), HasSubstr("[rows, columns]"));
  EXPECT_THAT(user_error([] {
                PointSets({array_of("x", {1}, {1}), array_of("cell/a", {1}, {1}), array_of("first_node", {1, 1}, {0})});
              }),
              AllOf(HasSubstr("x is no array of point sets; there are positions"), HasSubstr("cell/a is no array"),
                    HasSubstr("first_node has the shape [1, 1]"), HasSubstr("there is no array positions")));
}

class PointSetFiles : public testing::Test {
 protected:
  // The files that this build reads.
  static std::vector<std::string> files() {
    const bool has_hdf5 = user_error([] { hdf5_arrays("none.h5"); }).find("built without") == std::string::npos;
    return has_hdf5 ? std::vector<std::string>{"stored.npz", "packed.npz", "sets.h5"}
                    : std::vector<std::string>{"stored.npz", "packed.npz"};
  }

  // Both kinds of zip, and HDF5 as netCDF's library writes it.
  PointSetFiles() {
    output_ = run_graph_cases(folder_, {"write_point_sets", folder_.path().string()});
    EXPECT_EQ(output_, "");
  }
  TemporaryFolder folder_;
  std::string output_;
};

TEST_F(PointSetFiles, OfNumpyAndHdf5AreTheSame) {
  std::string first;
  for (const std::string& name : files()) {
    SCOPED_TRACE(name);
    prepare_graphs({folder_ / name}, folder_ / "p", {{"labels", {"energy", "load"}}});
    const GraphsDataset dataset(folder_ / "p");
    EXPECT_EQ(dataset.structures(), 6000);
    const GraphView last = dataset.structure(5999);
    // graph k has 3 + k % 5 nodes on a line along x with steps k + 1, each with an edge to the next.
    ASSERT_EQ(last.atoms(), 7);
    EXPECT_EQ(last.positions[3 * 6], 6 * 6000.0);
    EXPECT_THAT(last.senders, ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(last.receivers, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(last.species, ElementsAre(0, 0, 0, 0, 0, 0, 0));
    EXPECT_THAT(dataset.values(dataset.description().find("energy", GraphLevel::structure), 5999),
                ElementsAre(599.9, 1));
    EXPECT_THAT(dataset.values(dataset.description().find("load", GraphLevel::atom), 5999),
                ElementsAre(0, 1, 2, 3, 4, 5, 6));
    EXPECT_THAT(dataset.values(dataset.description().find("kind", GraphLevel::edge), 5999),
                ElementsAre(1, 1, 1, 1, 1, 1));
    const std::string bytes = read_text(folder_ / "p.bin");
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first);
  }
}

TEST_F(PointSetFiles, AreReadBackByTheDocumentedFunction) {
  prepare_graphs({folder_ / "packed.npz"}, folder_ / "p");
  EXPECT_THAT(run_graph_cases(folder_, {"compare_point_sets", folder_.path().string(),
                                        (tests::source_dir() / "docs/data.md").string()}),
              HasSubstr("6000 graphs are the same"));
}

TEST_F(PointSetFiles, BatchesHaveTheGivenEdgesInOrder) {
  prepare_graphs({folder_ / "stored.npz"}, folder_ / "p");
  const GraphsRequest request{.given_edges = true,
                              .atom_features = {"load"},
                              .edge_features = {"kind"},
                              .labels = {{.name = "energy", .property = "energy", .width = 2}}};
  const GraphsSource source({.train = {folder_ / "p"}}, request, 1);
  EXPECT_EQ(source.edges_of({0, 1}), 3);
  const MicroBatch batch = source.batch(std::vector<GraphsSource::Place>{{0, 0}, {0, 1}}, {0, 1},
                                        {"receivers", "senders", "first_edge", "vectors", "edge_features"});
  const auto numbers = [&](const char* name) {
    std::vector<int64_t> values(batch.tensors.at(name).bytes.size() / sizeof(int64_t));
    std::memcpy(values.data(), batch.tensors.at(name).bytes.data(), batch.tensors.at(name).bytes.size());
    return values;
  };
  EXPECT_THAT(numbers("receivers"), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_THAT(numbers("senders"), ElementsAre(0, 1, 3, 4, 5));
  EXPECT_THAT(numbers("first_edge"), ElementsAre(0, 0, 1, 2, 2, 3, 4, 5));
  EXPECT_EQ(batch.tensors.at("edge_features").sizes, (std::vector<int64_t>{5, 1}));
  std::vector<double> vectors(15);
  std::memcpy(vectors.data(), batch.tensors.at("vectors").bytes.data(), 15 * sizeof(double));
  // Vectors go from the receiver to the sender, against the line.
  EXPECT_THAT(vectors, ElementsAre(-1, 0, 0, -1, 0, 0, -2, 0, 0, -2, 0, 0, -2, 0, 0));
  EXPECT_FALSE(std::filesystem::exists(edge_counts_path(folder_ / "p", request)));
}

TEST_F(PointSetFiles, DamagedAndForeignFilesAreRefusedByName) {
  for (const std::string& name : files()) {
    const std::string whole = read_text(folder_ / name);
    const std::string cut = folder_.write(fmt::format("cut_{}", name), whole.substr(0, whole.size() / 2));
    EXPECT_THAT(refused_graphs(folder_, {cut}), HasSubstr(cut));
  }
  if (files().size() == 3) {
    EXPECT_THAT(refused_graphs(folder_, {folder_.write("a.h5", "text")}), HasSubstr("is no HDF5 file"));
  }
  EXPECT_THAT(refused_graphs(folder_, {folder_ / "texts.npz"}), HasSubstr("numbers of type '<U3'"));
  EXPECT_THAT(refused_graphs(folder_, {folder_ / "edge.npz"}),
              HasSubstr("structure 2: edge 1 has the node 3 of 3, counted from 0"));
  EXPECT_THAT(refused_graphs(folder_, {folder_ / "infinite.npz"}), HasSubstr("structure 1: load of atom 2 is inf"));
}

}  // namespace
}  // namespace terrace::data
