// Trains a potential of two atoms and calls it as a library: one structure or many, derivatives, molecular dynamics.
#include "terrace/predict/graph_predictor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "terrace/data/graphs/prepare_graphs.h"
#include "terrace/models/families.h"
#include "terrace/predict/c_interface.h"
#include "terrace/run/run_training.h"
#include "tests/families/pairs_of_atoms.h"
#include "tests/scratch_folder.h"

namespace terrace::predict {
namespace {

using data::Structure;

class GraphPredictorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    const std::string pairs = (*folder_ / "pairs").string();
    write_pairs_of_atoms(pairs + ".xyz", 80);
    data::GraphsPreparation().prepare({.inputs = {pairs + ".xyz"}, .output = pairs});
    const std::string toml = fmt::format(
        "[model]\nfamily = \"gnn\"\nconv = \"schnet\"\nlayers = 2\nwidth = 16\nradius = 4.0\nradial = 16\n"
        "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
        "[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\nweight = 10.0\n"
        "[data]\ntrain = [\"{0}\"]\n[train]\nglobal_batch = 20\nmicro_batch = 20\nsteps = 200\nthreads = 1\n"
        "device = \"cpu\"\n[optimizer]\nlearning_rate = 5e-3\n[checkpoint]\nfolder = \"{0}_run\"\n",
        pairs);
    run::run_training(config::parse(toml, "pairs.toml", models::families()), {});
    model_ = std::make_unique<const GraphPredictor>(pairs + "_run");
  }
  static void TearDownTestSuite() {
    model_.reset();
    folder_.reset();
  }

  static Structure pair(double distance) {
    return {.species = {6, 6}, .positions = {0.1, 0.2, 0.3, 0.1 + distance, 0.2, 0.3}};
  }
  static double energy(const Structure& structure) { return model_->predict({&structure, 1}).values.at("energy")[0]; }

  static std::unique_ptr<ScratchFolder> folder_;
  static std::unique_ptr<const GraphPredictor> model_;
};
std::unique_ptr<ScratchFolder> GraphPredictorTest::folder_;
std::unique_ptr<const GraphPredictor> GraphPredictorTest::model_;

// Statistics of a batch of one would leave no trace of the structure, and those of the beginning fit no weights.
TEST(GraphPredictorWithBatchNorm, PredictsWithRunningStatistics) {
  const ScratchFolder folder;
  const std::string pairs = (folder / "pairs").string();
  write_pairs_of_atoms(pairs + ".xyz", 80);
  data::GraphsPreparation().prepare({.inputs = {pairs + ".xyz"}, .output = pairs});
  const std::string toml = fmt::format(
      "[model]\nfamily = \"gnn\"\nconv = \"schnet\"\nlayers = 2\nwidth = 16\nradius = 4.0\nradial = 16\nnorm = "
      "\"batch\"\n"
      "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
      "[data]\ntrain = [\"{0}\"]\n[train]\nglobal_batch = 40\nsteps = 300\nthreads = 1\ndevice = \"cpu\"\n"
      "[optimizer]\nlearning_rate = 5e-3\n[checkpoint]\nfolder = \"{0}_run\"\n",
      pairs);
  run::run_training(config::parse(toml, "pairs.toml", models::families()), {.ranks = 2});
  const GraphPredictor model(pairs + "_run");
  for (const double distance : {1.0, 1.2, 1.6, 2.0}) {
    const Structure structure{.species = {6, 6}, .positions = {0.1, 0.2, 0.3, 0.1 + distance, 0.2, 0.3}};
    const double e = std::exp(1.2 - distance);
    EXPECT_NEAR(model.predict({&structure, 1}).values.at("energy")[0], (1 - e) * (1 - e) - 6, 0.05) << distance;
  }
}

TEST_F(GraphPredictorTest, HasLearnedTheEnergy) {
  for (const double distance : {1.0, 1.2, 1.6, 2.0}) {
    const double e = std::exp(1.2 - distance);
    EXPECT_NEAR(energy(pair(distance)), (1 - e) * (1 - e) - 6, 0.05) << distance;
  }
}

TEST_F(GraphPredictorTest, PredictsManyStructuresAsEachAlone) {
  std::vector<Structure> structures;
  for (int i = 0; i < 1500; ++i) structures.push_back(pair(0.9 + 0.001 * i));
  structures.push_back({.species = {6}, .positions = {5, 5, 5}});
  const GraphPrediction all = model_->predict(structures);
  ASSERT_EQ(all.values.at("energy").size(), structures.size());
  ASSERT_EQ(all.values.at("forces").size(), 3u * (2 * 1500 + 1));
  for (const size_t number : {size_t{0}, size_t{1023}, size_t{1024}, size_t{1499}, size_t{1500}}) {
    EXPECT_NEAR(all.values.at("energy")[number], energy(structures[number]), 1e-5) << number;
  }
  for (size_t i = 9000; i < 9003; ++i) EXPECT_EQ(all.values.at("forces")[i], 0) << "of an atom without neighbours";
  EXPECT_TRUE(model_->predict({}).values.at("energy").empty());
}

TEST_F(GraphPredictorTest, ForcesAreTheDerivativesOfTheEnergy) {
  const Structure structure = pair(1.5);
  const std::vector<double> forces = model_->predict({&structure, 1}).values.at("forces");
  for (size_t i = 0; i < 6; ++i) {
    Structure less = structure, more = structure;
    constexpr double step = 5e-3;
    less.positions[i] -= step;
    more.positions[i] += step;
    EXPECT_NEAR(forces[i], -(energy(more) - energy(less)) / (2 * step), 2e-3) << i;
  }
}

TEST_F(GraphPredictorTest, KeepsTheEnergyOfMolecularDynamics) {
  Structure structure = pair(1.6);
  std::vector<double> velocities(6, 0.0);
  constexpr double step = 0.02;
  GraphPrediction now = model_->predict({&structure, 1});
  double least = 1e9, most = -1e9, lowest = 1e9, highest = -1e9;
  for (int i = 0; i < 1000; ++i) {
    for (size_t k = 0; k < 6; ++k) {
      velocities[k] += 0.5 * step * now.values.at("forces")[k];
      structure.positions[k] += step * velocities[k];
    }
    now = model_->predict({&structure, 1});
    double kinetic = 0;
    for (size_t k = 0; k < 6; ++k) {
      velocities[k] += 0.5 * step * now.values.at("forces")[k];
      kinetic += 0.5 * velocities[k] * velocities[k];
    }
    const double potential = now.values.at("energy")[0];
    least = std::min(least, kinetic + potential);
    most = std::max(most, kinetic + potential);
    lowest = std::min(lowest, potential);
    highest = std::max(highest, potential);
  }
  EXPECT_GT(highest - lowest, 0.05) << "the atoms vibrate";
  EXPECT_LT(most - least, 0.01 * (highest - lowest));
}

TEST_F(GraphPredictorTest, HasFunctionsForC) {
  char error[200] = "";
  EXPECT_EQ(terrace_potential_open("/nowhere", error, sizeof error), nullptr);
  EXPECT_NE(std::string(error).find("/nowhere"), std::string::npos) << error;
  terrace_potential* potential = terrace_potential_open(model_->checkpoint().c_str(), error, sizeof error);
  ASSERT_NE(potential, nullptr) << error;
  const Structure structure = pair(1.4);
  const GraphPrediction expected = model_->predict({&structure, 1});
  const int numbers[2] = {6, 6};
  double energy = 0, forces[6] = {};
  ASSERT_EQ(terrace_potential_compute(potential, 2, numbers, structure.positions.data(), nullptr, nullptr, &energy,
                                      forces, error, sizeof error),
            0)
      << error;
  EXPECT_EQ(energy, expected.values.at("energy")[0]);
  EXPECT_EQ(std::vector<double>(forces, forces + 6), expected.values.at("forces"));
  // Periodic images: a chain of pairs.
  const double cell[9] = {3, 0, 0, 0, 1, 0, 0, 0, 1};
  const int periodic[3] = {1, 0, 0};
  double in_chain = 0;
  EXPECT_EQ(terrace_potential_compute(potential, 2, numbers, structure.positions.data(), cell, periodic, &in_chain,
                                      nullptr, nullptr, 0),
            0);
  EXPECT_NE(in_chain, energy);
  const int wrong[2] = {6, 200};
  EXPECT_EQ(terrace_potential_compute(potential, 2, wrong, structure.positions.data(), nullptr, nullptr, &energy,
                                      nullptr, error, 10),
            1);
  EXPECT_EQ(std::string(error), "atom 1 ha");
  terrace_potential_close(potential);
  terrace_potential_close(nullptr);
}

TEST_F(GraphPredictorTest, KnowsWhatItWasTrainedOn) {
  const Structure gold{.species = {79}, .positions = {0, 0, 0}};
  EXPECT_EQ(model_->unknown_elements({&gold, 1}), std::vector<std::string>{"Au"});
  const std::vector<Structure> both = {pair(1.2), gold};
  const GraphPrediction prediction = model_->predict(both);
  const std::vector<double>&energies = prediction.unlearned.at("energy"), &forces = prediction.unlearned.at("forces");
  ASSERT_EQ(energies.size(), 2u);
  ASSERT_EQ(forces.size(), 9u);
  EXPECT_EQ(energies[0], 0);
  EXPECT_GT(energies[1], 2.5) << "about 3 eV are taken off for an atom of carbon";
  for (size_t i = 0; i < forces.size(); ++i) EXPECT_EQ(forces[i] > 0, i >= 6) << i;
  EXPECT_EQ(model_->step(), 200);
  ASSERT_EQ(model_->outputs().size(), 2u);
  EXPECT_EQ(model_->outputs()[1].columns, 3);
}

}  // namespace
}  // namespace terrace::predict
