// Predictions of two models of one file: their mean and spread in columns, and the labels that they are judged by.
#include "terrace/predict/dataset_prediction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/data/graphs/prepare_graphs.h"
#include "terrace/data/graphs/structures/structure_stream.h"
#include "terrace/models/families.h"
#include "terrace/run/run_training.h"
#include "tests/families/pairs_of_atoms.h"
#include "tests/scratch_folder.h"

namespace terrace::predict {
namespace {

using testing::ElementsAre;

std::string train_pairs(const std::string& pairs, int seed) {
  const std::string folder = fmt::format("{}_run{}", pairs, seed);
  const std::string toml = fmt::format(
      "[model]\nfamily = \"gnn\"\nconv = \"schnet\"\nlayers = 1\nwidth = 8\nradius = 4.0\nradial = 8\n"
      "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
      "[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\n"
      "[data]\ntrain = [\"{}\"]\n[train]\nglobal_batch = 20\nsteps = 2\nthreads = 1\ndevice = \"cpu\"\nseed = {}\n"
      "[optimizer]\nlearning_rate = 5e-3\n[checkpoint]\nfolder = \"{}\"\n",
      pairs, seed, folder);
  run::run_training(config::parse(toml, "pairs.toml", models::families()), {});
  return folder;
}

TEST(DatasetPrediction, HasTheMeanAndTheSpreadOfTwoModelsBesideTheLabels) {
  const ScratchFolder folder;
  const std::string pairs = (folder / "pairs").string(), file = (folder / "two.xyz").string();
  write_pairs_of_atoms(pairs + ".xyz", 40);
  data::GraphsPreparation().prepare({.inputs = {pairs + ".xyz"}, .output = pairs});
  write_text_atomically(file,
                        "2\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-5\nC 0 0 0 nan 0 0\nC 1.2 0 0 -1 0 0\n"
                        "2\nProperties=species:S:1:pos:R:3\nC 0 0 0\nC 1.5 0 0\n");
  const std::vector<std::filesystem::path> runs = {train_pairs(pairs, 1), train_pairs(pairs, 2)};
  const std::vector<data::Structure> structures = data::StructureStream(file, "test").next(10);
  const GraphPrediction one = GraphPredictor(runs[0]).predict(structures);
  const GraphPrediction other = GraphPredictor(runs[1]).predict(structures);
  const double first = one.values.at("energy")[0], second = other.values.at("energy")[0];
  ASSERT_NE(first, second);
  const double mean = (first + second) / 2;
  // The variance of two values is half of the square of their difference; the mean of two has half as much again.
  const double deviation = std::abs(first - second) * std::sqrt(0.75);

  DatasetPrediction prediction({.models = runs, .data = file});
  std::vector<data::Structure> taken;
  const auto judged = prediction.run("test", [&](const data::Structure& structure) { taken.push_back(structure); });

  ASSERT_EQ(taken.size(), 2u);
  const auto of_first = [&](const char* name) { return taken[0].of_structure.at(name).values; };
  EXPECT_THAT(of_first("energy"), ElementsAre(testing::DoubleEq(mean)));
  EXPECT_THAT(of_first("energy_std"), ElementsAre(testing::DoubleEq(deviation)));
  EXPECT_THAT(of_first("energy_1"), ElementsAre(first));
  EXPECT_THAT(of_first("energy_2"), ElementsAre(second));
  EXPECT_THAT(of_first("energy_label"), ElementsAre(-5));
  EXPECT_FALSE(taken[1].of_structure.contains("energy_label"));
  // Energies are judged by the atom.
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_THAT(judged[0].labels, ElementsAre(-2.5));
  EXPECT_THAT(judged[0].predicted.mean, ElementsAre(testing::DoubleEq(mean / 2)));
  EXPECT_THAT(judged[0].predicted.deviation, ElementsAre(testing::DoubleEq(deviation / 2)));
  // The forces on the first atom lack a component.
  EXPECT_THAT(judged[1].labels, ElementsAre(-1, 0, 0));
  EXPECT_THAT(judged[1].structures, ElementsAre(0, 0, 0));
  EXPECT_THAT(judged[1].rows, ElementsAre(1, 1, 1));
  EXPECT_EQ(prediction.structures(), 2);
  EXPECT_TRUE(prediction.unknown_elements().empty());

  DatasetPrediction stopped({.models = runs, .data = file, .stops = [] { return true; }});
  EXPECT_THROW(stopped.run("test", {}), UserError);
}

}  // namespace
}  // namespace terrace::predict
