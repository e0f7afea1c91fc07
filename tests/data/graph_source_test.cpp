// Batches of graphs have the tensors of the contract, every structure occurs once an epoch, and the order depends on
// the seed and the number of the sample alone.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "terrace/base/random.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/graphs/neighbours.h"
#include "tests/data/graph_files.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

template <typename Number>
std::vector<Number> tensor_of(const MicroBatch& batch, const std::string& name) {
  const HostTensor& tensor = batch.tensors.at(name);
  std::vector<Number> values(tensor.bytes.size() / sizeof(Number));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

const TensorNames graph_tensors = {
    "species",         "graphs",         "first_atom",     "receivers",      "senders",        "first_edge",
    "sender_order",    "first_sent",     "vectors",        "volumes",        "atom_features",  "edge_features",
    "charges",         "branches",       "degree_means",   "targets.energy", "offsets.energy", "scales.energy",
    "labelled.energy", "targets.forces", "offsets.forces", "scales.forces",  "labelled.forces"};

// Structures of 1 to 7 atoms of H, C and O, of which some are periodic; the energy is a sum over elements and a number
// that depends on the structure.
std::string drawn_structures(int64_t count, uint32_t seed, bool has_forces = true) {
  std::string text;
  for (int64_t k = 0; k < count; ++k) {
    const auto draw = [&](int64_t i) {
      return philox_at({seed, 3}, static_cast<uint64_t>(k), static_cast<uint64_t>(i));
    };
    const int64_t atoms = 1 + draw(0)[0] % 7;
    std::string lines;
    double energy = 0.001 * (draw(0)[1] % 100);
    for (int64_t atom = 0; atom < atoms; ++atom) {
      const auto coordinate = [&](size_t axis) {
        return 1.2 * static_cast<double>(atom) + 0.4 * (draw(atom + 1)[axis] % 97) / 97;
      };
      const uint32_t element = draw(atom + 1)[3] % 3;
      energy += std::array{-13.5, -1000.0, -2000.0}[element];
      lines +=
          fmt::format("{} {} {} {}", std::array{"H", "C", "O"}[element], coordinate(0), coordinate(1), coordinate(2));
      if (has_forces) lines += fmt::format(" {} {} {}", 0.1 * element, 0.2, -0.3);
      lines += fmt::format(" {}\n", static_cast<double>(element) - 1);
    }
    text += fmt::format("{}\n{}energy={} charge={} Properties=species:S:1:pos:R:3:{}spin:R:1\n", atoms,
                        k % 3 == 0 ? "Lattice=\"8 0 0 0 9 0 0 1 10\" " : "", energy, k % 2,
                        has_forces ? "forces:R:3:" : "");
    text += lines;
  }
  return text;
}

GraphsRequest energies_and_forces() {
  return {.radius = 4,
          .atom_features = {"spin"},
          .charge = "charge",
          .labels = {{.name = "energy",
                      .property = "energy",
                      .offset = LabelOffset::elements,
                      .scaled_as = "forces",
                      .per_atom = true},
                     {.name = "forces", .property = "forces", .level = GraphLevel::atom, .width = 3}},
          .counts = {{.level = GraphLevel::structure, .label = "energy"},
                     {.level = GraphLevel::atom, .times = 3, .label = "forces"}}};
}

class GraphSamples : public testing::Test {
 protected:
  GraphSamples() {
    prepare_graphs({folder_.write("a.xyz", drawn_structures(60, 1))}, folder_ / "a",
                   {{"split", {"0.6", "0.2", "0.2"}}});
    config_.train = {folder_ / "a"};
  }
  void add_second() {
    prepare_graphs({folder_.write("b.xyz", drawn_structures(25, 2, false))}, folder_ / "b",
                   {{"split", {"0.8", "0.2"}}});
    config_.train.push_back(folder_ / "b");
  }
  GraphsSource source(uint64_t seed = 1, const Sizes& budget = {}) const { return {config_, request_, seed, budget}; }

  TemporaryFolder folder_;
  GraphsConfig config_;
  GraphsRequest request_ = energies_and_forces();
};

TEST_F(GraphSamples, TensorsHaveTheNumbersOfTheContract) {
  const GraphsSource source = this->source();
  const GraphsDataset dataset(config_.train[0]);
  const std::vector<GraphsSource::Place> places = {{0, 3}, {0, 10}, {0, 4}};
  const MicroBatch batch = source.batch(places, {7, 8, 9}, graph_tensors);
  EXPECT_THAT(batch.samples, ElementsAre(7, 8, 9));
  const auto species = tensor_of<int64_t>(batch, "species"), graphs = tensor_of<int64_t>(batch, "graphs"),
             receivers = tensor_of<int64_t>(batch, "receivers"), senders = tensor_of<int64_t>(batch, "senders"),
             first_edge = tensor_of<int64_t>(batch, "first_edge"), order = tensor_of<int64_t>(batch, "sender_order"),
             first_sent = tensor_of<int64_t>(batch, "first_sent"), first_atom = tensor_of<int64_t>(batch, "first_atom");
  const auto vectors = tensor_of<double>(batch, "vectors");
  int64_t atom = 0, edge = 0;
  for (size_t graph = 0; graph < places.size(); ++graph) {
    const GraphView view = dataset.structure(places[graph].structure);
    EXPECT_EQ(first_atom[graph], atom);
    const NeighbourList list = find_neighbours(view.positions, view.cell, {.cutoff = 4});
    EXPECT_EQ(list.edges(), source.edges_of(places[graph]));
    for (size_t e = 0; e < list.receivers.size(); ++e) {
      const auto at = static_cast<size_t>(edge) + e;
      EXPECT_EQ(receivers[at], atom + list.receivers[e]);
      EXPECT_EQ(senders[at], atom + list.senders[e]);
      for (size_t axis = 0; axis < 3; ++axis) {
        double expected = view.positions[3 * static_cast<size_t>(list.senders[e]) + axis] -
                          view.positions[3 * static_cast<size_t>(list.receivers[e]) + axis];
        for (size_t k = 0; k < 3; ++k) expected += list.shifts[e][k] * view.cell.vectors[k][axis];
        EXPECT_NEAR(vectors[3 * at + axis], expected, 1e-14);
      }
    }
    for (const uint8_t element : view.species) {
      EXPECT_EQ(species[static_cast<size_t>(atom)], element);
      EXPECT_EQ(graphs[static_cast<size_t>(atom)], static_cast<int64_t>(graph));
      ++atom;
    }
    edge += list.edges();
  }
  EXPECT_EQ(first_atom.back(), atom);
  EXPECT_EQ(std::ssize(receivers), edge);
  EXPECT_EQ(batch.sizes, (Sizes{{"atoms", atom}, {"edges", edge}}));
  EXPECT_THAT(batch.counts, ElementsAre(3, 3 * static_cast<double>(atom)));
  EXPECT_EQ(std::ssize(first_edge), atom + 1);
  EXPECT_EQ(std::ssize(first_sent), atom + 1);
  for (size_t i = 0; i < static_cast<size_t>(atom); ++i) {
    for (int64_t e = first_edge[i]; e < first_edge[i + 1]; ++e)
      EXPECT_EQ(receivers[static_cast<size_t>(e)], static_cast<int64_t>(i));
    for (int64_t e = first_sent[i]; e < first_sent[i + 1]; ++e) {
      EXPECT_EQ(senders[static_cast<size_t>(order[static_cast<size_t>(e)])], static_cast<int64_t>(i));
      if (e == first_sent[i]) continue;
      EXPECT_LT(order[static_cast<size_t>(e - 1)], order[static_cast<size_t>(e)]);
    }
  }
  EXPECT_EQ(first_edge.back(), edge);
  EXPECT_EQ(first_sent.back(), edge);
  // Structure 3 has a cell of 8 x 9 x 10, the others none.
  EXPECT_THAT(tensor_of<double>(batch, "volumes"), ElementsAre(720, 1, 1));
  EXPECT_THAT(tensor_of<float>(batch, "charges"), ElementsAre(1, 0, 0));
  EXPECT_THAT(tensor_of<int64_t>(batch, "branches"), ElementsAre(0, 0, 0));
  EXPECT_EQ(batch.tensors.at("atom_features").sizes, (std::vector<int64_t>{atom, 1}));
  EXPECT_EQ(batch.tensors.at("edge_features").sizes, (std::vector<int64_t>{edge, 0}));
}

TEST_F(GraphSamples, TargetTimesScalePlusOffsetIsTheProperty) {
  const GraphsSource source = this->source();
  const GraphsDataset dataset(config_.train[0]);
  const int64_t energy = dataset.description().find("energy", GraphLevel::structure),
                forces = dataset.description().find("forces", GraphLevel::atom);
  const MicroBatch batch = source.batch(std::vector<GraphsSource::Place>{{0, 1}, {0, 2}}, {0, 1}, graph_tensors);
  const auto compare = [&](const std::string& label, const std::vector<double>& values) {
    const auto targets = tensor_of<double>(batch, "targets." + label),
               offsets = tensor_of<double>(batch, "offsets." + label);
    const double scale = tensor_of<double>(batch, "scales." + label).at(0);
    ASSERT_EQ(targets.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(targets[i] * scale + offsets[i], values[i], 1e-9);
  };
  compare("energy", {dataset.values(energy, 1)[0], dataset.values(energy, 2)[0]});
  std::vector<double> both(dataset.values(forces, 1).begin(), dataset.values(forces, 1).end());
  both.insert(both.end(), dataset.values(forces, 2).begin(), dataset.values(forces, 2).end());
  compare("forces", both);
  EXPECT_EQ(tensor_of<double>(batch, "scales.energy"), tensor_of<double>(batch, "scales.forces"));
  EXPECT_THAT(tensor_of<float>(batch, "labelled.energy"), ElementsAre(1, 1));
}

TEST_F(GraphSamples, AnEpochHasEveryTrainingStructureOnceInTheOrderOfItsSeed) {
  const GraphsSource source = this->source(), same = this->source(), other = this->source(2);
  ASSERT_EQ(source.samples_in_epoch(), 36u);
  std::vector<int64_t> first, second, of_other;
  for (uint64_t sample = 0; sample < 36; ++sample) {
    first.push_back(source.training_place(sample).structure);
    second.push_back(source.training_place(36 + sample).structure);
    of_other.push_back(other.training_place(sample).structure);
    EXPECT_EQ(same.training_place(sample), source.training_place(sample));
  }
  EXPECT_NE(first, second);
  EXPECT_NE(first, of_other);
  for (auto* list : {&first, &second, &of_other}) std::ranges::sort(*list);
  EXPECT_THAT(first, ElementsAreArray(GraphsDataset(config_.train[0]).part("train")));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, of_other);
}

// The samples of all ranks in a step, sorted.
std::vector<int64_t> samples_of_step(const GraphsSource& source, StepShare share) {
  std::vector<int64_t> all;
  size_t batches = 0;
  for (share.rank = 0; share.rank < share.ranks; ++share.rank) {
    const std::vector<MicroBatch> own = source.micro_batches(share, {});
    if (share.rank == 0) batches = own.size();
    EXPECT_EQ(own.size(), batches);
    for (const MicroBatch& batch : own) {
      all.insert(all.end(), batch.samples.begin(), batch.samples.end());
      for (const auto& [name, limit] : share.budget) EXPECT_LE(batch.sizes.at(name), limit);
    }
  }
  std::ranges::sort(all);
  return all;
}

TEST_F(GraphSamples, RanksTakeEverySampleOfAStepOnce) {
  std::vector<int64_t> expected(13);
  std::iota(expected.begin(), expected.end(), 40);
  for (const Sizes& budget : {Sizes{}, Sizes{{"atoms", 12}, {"edges", 200}}}) {
    const GraphsSource source = this->source(1, budget);
    for (const int64_t ranks : {1, 2, 3, 16}) {
      EXPECT_EQ(samples_of_step(
                    source, {.first_sample = 40, .samples = 13, .ranks = ranks, .micro_batch = 2, .budget = budget}),
                expected);
    }
  }
  EXPECT_THAT(user_error([&] { this->source(1, {{"atoms", 3}}); }), HasSubstr("more than 3 atoms"));
}

TEST_F(GraphSamples, SizesAndCountsDoNotDependOnTheTensorsThatAreAsked) {
  const GraphsSource source = this->source();
  const std::vector<GraphsSource::Place> places = {{0, 0}, {0, 5}};
  const MicroBatch all = source.batch(places, {0, 1}, graph_tensors), none = source.batch(places, {0, 1}, {});
  EXPECT_EQ(all.sizes, none.sizes);
  EXPECT_EQ(all.counts, none.counts);
  EXPECT_TRUE(none.tensors.empty());
  const MicroBatch some = source.batch(places, {0, 1}, {"receivers"});
  EXPECT_EQ(some.tensors.size(), 1u);
  EXPECT_EQ(tensor_of<int64_t>(some, "receivers"), tensor_of<int64_t>(all, "receivers"));
}

TEST_F(GraphSamples, ABatchMayBeEmpty) {
  const MicroBatch batch = source().batch({}, {}, graph_tensors);
  EXPECT_EQ(batch.sizes, (Sizes{{"atoms", 0}, {"edges", 0}}));
  EXPECT_THAT(batch.counts, ElementsAre(0, 0));
  EXPECT_THAT(tensor_of<int64_t>(batch, "first_atom"), ElementsAre(0));
  EXPECT_THAT(tensor_of<int64_t>(batch, "first_edge"), ElementsAre(0));
  EXPECT_THAT(tensor_of<int64_t>(batch, "first_sent"), ElementsAre(0));
  EXPECT_EQ(batch.tensors.at("atom_features").sizes, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(batch.tensors.at("targets.forces").sizes, (std::vector<int64_t>{0, 3}));
}

TEST_F(GraphSamples, ADatasetWithoutALabelIsNotCounted) {
  add_second();
  const GraphsSource source = this->source();
  EXPECT_EQ(source.samples_in_epoch(), 56u);
  const MicroBatch batch =
      source.batch(std::vector<GraphsSource::Place>{{0, 0}, {1, 0}, {1, 1}}, {0, 1, 2}, graph_tensors);
  EXPECT_THAT(tensor_of<int64_t>(batch, "branches"), ElementsAre(0, 1, 1));
  EXPECT_THAT(tensor_of<float>(batch, "labelled.energy"), ElementsAre(1, 1, 1));
  const auto first_atom = tensor_of<int64_t>(batch, "first_atom");
  const auto labelled = tensor_of<float>(batch, "labelled.forces");
  ASSERT_EQ(std::ssize(labelled), 3 * first_atom.back());
  for (size_t i = 0; i < labelled.size(); ++i)
    EXPECT_EQ(labelled[i], std::ssize(labelled) > 0 && static_cast<int64_t>(i) < 3 * first_atom[1] ? 1 : 0);
  EXPECT_THAT(batch.counts, ElementsAre(3, 3 * static_cast<double>(first_atom[1])));
  const auto forces = tensor_of<double>(batch, "targets.forces");
  for (size_t i = 3 * static_cast<size_t>(first_atom[1]); i < forces.size(); ++i) EXPECT_EQ(forces[i], 0);
  std::map<size_t, int64_t> drawn;
  for (uint64_t sample = 0; sample < 56; ++sample) ++drawn[source.training_place(sample).dataset];
  EXPECT_EQ(drawn, (std::map<size_t, int64_t>{{0, 36}, {1, 20}}));
  config_.weights = {1, 3};
  const GraphsSource weighted = this->source();
  drawn.clear();
  for (uint64_t sample = 0; sample < 400; ++sample) ++drawn[weighted.training_place(sample).dataset];
  EXPECT_EQ(drawn, (std::map<size_t, int64_t>{{0, 100}, {1, 300}}));
}

TEST_F(GraphSamples, EvaluationTakesEveryHeldOutStructureOnce) {
  add_second();
  const GraphsSource source = this->source(1, {{"atoms", 20}});
  EXPECT_EQ(source.held_out_datasets(), config_.train);
  EXPECT_EQ(source.held_out_samples(), 17u);
  const std::vector<HeldOut> all = source.held_out(1000);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].samples.size(), 12u);
  EXPECT_EQ(all[1].samples.size(), 5u);
  for (const Sizes& budget : {Sizes{}, Sizes{{"atoms", 20}}}) {
    for (const HeldOut& held_out : all) {
      RoundShare share{.ranks = 3, .micro_batch = 2, .budget = budget};
      std::vector<int64_t> samples;
      for (share.round = 0; share.round < source.rounds(held_out, share); ++share.round) {
        for (share.rank = 0; share.rank < 3; ++share.rank) {
          const MicroBatch batch = source.held_out_micro_batch(held_out, share, {});
          samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
        }
      }
      std::ranges::sort(samples);
      EXPECT_THAT(samples, ElementsAreArray(held_out.samples));
    }
  }
  // If fewer samples are held out, the datasets have their shares of them.
  const std::vector<HeldOut> few = source.held_out(8);
  EXPECT_EQ(few.at(0).samples.size(), 6u);
  EXPECT_EQ(few.at(1).samples.size(), 2u);
  config_.held_out_split = "test";
  EXPECT_THAT(this->source().held_out_datasets(), ElementsAre(config_.train[0]));
}

TEST_F(GraphSamples, OtherDataAreHeldOutWithTheStatisticsOfACheckpoint) {
  const GraphsSource trained = source();
  const std::vector<AttachedFile> attached = trained.attached_files();
  ASSERT_EQ(attached.size(), 1u);
  EXPECT_EQ(attached[0].role, "statistics");
  const std::string kept = folder_.write("kept/statistics.json", attached[0].text);
  prepare_graphs({folder_.write("c.xyz",
                                "2\nenergy=-5 charge=0 Properties=species:S:1:pos:R:3:forces:R:3:spin:R:1\n"
                                "H 0 0 0 0 0 0 0\nXe 0 0 2 0 0 0 0\n")},
                 folder_ / "c");
  hold_out_graphs(config_, {folder_ / "c"}, {{"statistics", kept}});
  const GraphsSource evaluated = source();
  EXPECT_EQ(evaluated.statistics(), trained.statistics());
  EXPECT_THAT(evaluated.held_out_datasets(), ElementsAre(folder_ / "c"));
  const MicroBatch batch = evaluated.batch(std::vector<GraphsSource::Place>{{0, 0}}, {0}, graph_tensors);
  EXPECT_EQ(tensor_of<double>(batch, "scales.energy").at(0), trained.statistics().labels.at("energy").scale);
  // The offset of H alone: nothing is known of Xe.
  EXPECT_EQ(tensor_of<double>(batch, "offsets.energy").at(0),
            trained.statistics().labels.at("energy").offsets[0]->of_elements.at(1).at(0));
}

TEST_F(GraphSamples, AHeldOutDatasetHasTheBranchOfItsName) {
  add_second();
  const std::string kept = folder_.write("kept/statistics.json", source().attached_files()[0].text);
  std::filesystem::create_directories(folder_.path() / "elsewhere");
  prepare_graphs({folder_ / "b.xyz"}, folder_ / "elsewhere/b");
  prepare_graphs({folder_ / "b.xyz"}, folder_ / "c");
  GraphsConfig config = config_;
  EXPECT_THAT(user_error([&] {
                hold_out_graphs(config, {folder_ / "c"}, {{"statistics", kept}});
              }),
              HasSubstr("a branch for each of a, b"));
  hold_out_graphs(config, {folder_ / "elsewhere/b"}, {{"statistics", kept}});
  const GraphsSource evaluated(config, request_, 1);
  const MicroBatch batch = evaluated.batch(std::vector<GraphsSource::Place>{{0, 0}}, {0}, graph_tensors);
  EXPECT_THAT(tensor_of<int64_t>(batch, "branches"), ElementsAre(1));
  // All 25, since it has no other part.
  EXPECT_EQ(evaluated.held_out_samples(), 25u);
}

TEST_F(GraphSamples, StructuresOfNoDatasetGiveTheSameTensors) {
  const GraphsSource source = this->source();
  const GraphsDataset dataset(config_.train[0]);
  std::vector<Structure> structures;
  std::vector<GraphsSource::Place> places;
  for (const int64_t k : {8, 9}) {
    const GraphView view = dataset.structure(k);
    Structure& one = structures.emplace_back();
    one.species.assign(view.species.begin(), view.species.end());
    one.positions.assign(view.positions.begin(), view.positions.end());
    one.cell = view.cell;
    for (const GraphProperty& property : dataset.description().properties) {
      const std::span<const double> values =
          dataset.values(dataset.description().find(property.name, property.level), k);
      Properties& of_level = property.level == GraphLevel::structure ? one.of_structure : one.of_atoms;
      of_level[property.name] = {property.width, {values.begin(), values.end()}};
    }
    places.push_back({0, k});
  }
  const auto batch_of_structures = [&] {
    return batch_of(structures, 0, 0, source.request(), source.statistics(), graph_tensors);
  };
  const MicroBatch expected = source.batch(places, {0, 1}, graph_tensors), batch = batch_of_structures();
  ASSERT_EQ(batch.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    EXPECT_EQ(batch.tensors.at(name).bytes, tensor.bytes) << name;
    EXPECT_EQ(batch.tensors.at(name).sizes, tensor.sizes) << name;
  }
  structures[1].of_structure.erase("energy");
  const MicroBatch unlabelled = batch_of_structures();
  EXPECT_THAT(tensor_of<float>(unlabelled, "labelled.energy"), ElementsAre(1, 0));
  structures[1].of_atoms.erase("spin");
  EXPECT_THAT(user_error([&] { batch_of_structures(); }), HasSubstr("structure 2 has no spin of atoms"));
}

TEST(GraphBatch, SortsGivenEdgesWithTheirFeatures) {
  const Structure path{.species = {0, 0, 0},
                       .positions = {0, 0, 0, 1, 0, 0, 3, 0, 0},
                       .has_edges = true,
                       .edges = {.receivers = {2, 0, 1, 1, 0}, .senders = {1, 2, 2, 0, 1}},
                       .of_edges = {{"width", {1, {10, 20, 30, 40, 50}}}}};
  const GraphsRequest request{.given_edges = true, .edge_features = {"width"}};
  const MicroBatch batch = batch_of(std::vector{path, path}, 3, 0, request, {.datasets = {"a"}}, graph_tensors);
  EXPECT_THAT(tensor_of<int64_t>(batch, "receivers"), ElementsAre(0, 0, 1, 1, 2, 3, 3, 4, 4, 5));
  EXPECT_THAT(tensor_of<int64_t>(batch, "senders"), ElementsAre(1, 2, 0, 2, 1, 4, 5, 3, 5, 4));
  EXPECT_THAT(tensor_of<float>(batch, "edge_features"), ElementsAre(50, 20, 40, 30, 10, 50, 20, 40, 30, 10));
  EXPECT_THAT(tensor_of<int64_t>(batch, "sender_order"), ElementsAre(2, 0, 4, 1, 3, 7, 5, 9, 6, 8));
  EXPECT_THAT(tensor_of<int64_t>(batch, "first_sent"), ElementsAre(0, 1, 3, 5, 6, 8, 10));
  EXPECT_THAT(tensor_of<int64_t>(batch, "branches"), ElementsAre(3, 3));
  const auto vectors = tensor_of<double>(batch, "vectors");
  EXPECT_EQ(vectors[0], 1);    // to node 0 from node 1
  EXPECT_EQ(vectors[12], -2);  // to node 2 from node 1
  EXPECT_EQ(batch.sizes, (Sizes{{"atoms", 6}, {"edges", 10}}));
  Structure other = path;
  other.of_edges["width"] = {2, std::vector<double>(10)};
  EXPECT_THAT(
      user_error([&] {
        batch_of(std::vector{path, other}, 0, 0, request, {.datasets = {"a"}}, graph_tensors);
      }),
      HasSubstr("structure 2 has 0 columns of features of its atoms and 2 of its edges, and the first 0 and 1"));
  other.has_edges = false;
  EXPECT_THAT(user_error([&] { batch_of(std::vector{other}, 0, 0, request, {.datasets = {"a"}}, graph_tensors); }),
              HasSubstr("structure 1 gives no edges"));
}

TEST_F(GraphSamples, IdentityKnowsTheDataAndNamesWhatChanged) {
  const GraphsSource source = this->source();
  EXPECT_EQ(source.identity(), this->source(5).identity());
  EXPECT_EQ(source.difference(source.identity(), source.identity(), 3), "");
  prepare_graphs({folder_ / "a.xyz"}, folder_ / "a", {{"split", {"0.6", "0.2", "0.2"}}, {"seed", {"2"}}});
  const GraphsSource drawn_again = this->source();
  EXPECT_THAT(source.difference(source.identity(), drawn_again.identity(), 0), HasSubstr("dataset a has other t"));
  prepare_graphs({folder_.write("a.xyz", drawn_structures(61, 1))}, folder_ / "a");
  EXPECT_THAT(source.difference(source.identity(), this->source().identity(), 0),
              HasSubstr("dataset a had 60 structures and has 61 now"));
  add_second();
  EXPECT_THAT(source.difference(source.identity(), this->source().identity(), 0),
              HasSubstr("the datasets were a, and are a, b"));
}

TEST_F(GraphSamples, ProblemsAreNamedTogetherWithWhatIsThere) {
  request_.labels.push_back({.name = "gap", .property = "gap"});
  request_.labels.push_back({.name = "wide", .property = "forces", .level = GraphLevel::atom, .width = 2});
  request_.atom_features = {"spins"};
  request_.charge = "total";
  request_.edge_features = {"bond"};
  config_.train.push_back(folder_ / "missing");
  const std::vector<std::string> problems = problems_with_graphs(config_, request_, true);
  const std::string all = fmt::format("{}", fmt::join(problems, "\n"));
  EXPECT_THAT(all, AllOf(HasSubstr("missing.json does not exist"), HasSubstr("no property gap of structures"),
                         HasSubstr("it has charge, energy"), HasSubstr("forces of"), HasSubstr("has 3 columns"),
                         HasSubstr("no property spins of atoms; it has forces, spin (did you mean spin?)"),
                         HasSubstr("no property total of structures"), HasSubstr("features of edges (bond)")));
  request_ = energies_and_forces();
  config_.train = {folder_ / "a"};
  EXPECT_THAT(problems_with_graphs(config_, request_, true), ElementsAre());
  request_.given_edges = true;
  EXPECT_THAT(problems_with_graphs(config_, request_, true), ElementsAre(HasSubstr("gives no edges")));
  request_ = energies_and_forces();
  request_.labels[0].scaled_as = "stress";
  EXPECT_THAT(problems_with_graphs(config_, request_), ElementsAre(HasSubstr("scaled as stress")));
  request_ = energies_and_forces();
  prepare_graphs({folder_ / "a.xyz"}, folder_ / "a");
  EXPECT_THAT(problems_with_graphs(config_, request_, true),
              ElementsAre(HasSubstr("no structures in the part validation")));
  config_.statistics = folder_.write("old.json", "{}");
  EXPECT_THAT(problems_with_graphs(config_, request_), ElementsAre(HasSubstr("has no statistics of graphs")));
}

TEST_F(GraphSamples, SizesForPlanningAreThoseOfTheDataOrOfTheConfiguration) {
  const GraphsDataset dataset(config_.train[0]);
  const GraphsSource source = this->source();
  double atoms = 0, edges = 0;
  int64_t most = 0;
  for (const int64_t k : dataset.part("train")) {
    atoms += static_cast<double>(dataset.atoms_of(k));
    edges += static_cast<double>(source.edges_of({0, k}));
    most = std::max(most, source.edges_of({0, k}));
  }
  const GraphSizes sizes = sizes_of_graphs(config_, request_);
  EXPECT_DOUBLE_EQ(sizes.average_atoms, atoms / 36);
  EXPECT_DOUBLE_EQ(sizes.average_edges, edges / 36);
  EXPECT_EQ(sizes.most_edges, most);
  config_.held_out = {folder_ / "a"};
  EXPECT_NE(sizes_of_graphs(config_, request_).average_edges, sizes.average_edges);
  config_ = {.train = {folder_ / "nowhere"},
             .average_atoms = 45.3,
             .average_edges = 950,
             .most_atoms = 304,
             .most_edges = 7000};
  EXPECT_EQ(sizes_of_graphs(config_, request_).most_edges, 7000);
  config_.average_edges = 0;
  EXPECT_THAT(user_error([&] { sizes_of_graphs(config_, request_); }), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace terrace::data
