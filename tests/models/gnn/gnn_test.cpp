// Tests what must hold of graph networks whatever their weights: derivatives, symmetries, no NaN, empty batches, and
// the same sums however a batch is divided.
#include <ATen/ops/allclose.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/models/gnn/small_graphs.h"
#include "tests/models/gnn_formulas.h"

namespace terrace::models::gnn {
namespace {

std::vector<SmallGnn> potentials() {
  std::vector<SmallGnn> list;
  for (SmallGnn& small : small_gnns()) {
    if (small.config.has_derivatives()) list.push_back(std::move(small));
  }
  return list;
}

double largest(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>(); }

Outputs outputs_of(Gnn& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  return model.outputs(0, {}, batch, {});
}

// The batch with one unit of each property for one of the normalised ones, and nothing taken off.
Batch in_plain_units(Batch batch, const ModelConfig& config) {
  for (const OutputConfig& output : config.outputs) {
    batch.tensors["scales." + output.name].fill_(1.0);
    batch.tensors["offsets." + output.name].fill_(0.0);
  }
  return batch;
}

at::Tensor energies(Gnn& model, const Batch& batch) { return outputs_of(model, batch).at("energy"); }

// The vectors of the edges when atoms move by `moves` [N, 3] with the edges that they have.
Batch moved(Batch batch, const at::Tensor& moves) {
  batch.tensors["vectors"] =
      batch["vectors"].add(moves.index_select(0, batch["senders"])).sub(moves.index_select(0, batch["receivers"]));
  return batch;
}

class GnnPotentials : public ::testing::TestWithParam<SmallGnn> {};

TEST_P(GnnPotentials, ForcesAreCentralDifferencesOfTheEnergy) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  const Batch batch = in_plain_units(some_graphs(config, some_structures(1, false), 1), config);
  const at::Tensor forces = outputs_of(*model, batch).at("forces");
  constexpr double step = 1e-5;
  for (int64_t atom = 0; atom < forces.size(0); ++atom) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      const auto energy = [&](double move) {
        at::Tensor moves = at::zeros_like(forces);
        moves[atom][axis] = move;
        return energies(*model, moved(batch, moves)).sum().item<double>();
      };
      const double difference = -(energy(step) - energy(-step)) / (2 * step);
      EXPECT_NEAR(forces[atom][axis].item<double>(), difference, 1e-6 * std::max(1.0, std::abs(difference)));
    }
  }
}

TEST_P(GnnPotentials, StressIsACentralDifferenceOfTheEnergy) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  const Batch batch = in_plain_units(some_graphs(config, some_structures(2, false), 2), config);
  const at::Tensor stress = outputs_of(*model, batch).at("stress").view({-1, 3, 3});
  constexpr double step = 1e-5;
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 3; ++b) {
      const auto energy = [&](double size) {
        at::Tensor strain = at::eye(3, at::kDouble);
        strain[a][b] += size / 2;
        strain[b][a] += size / 2;
        Batch strained = batch;
        strained.tensors["vectors"] = batch["vectors"].matmul(strain);
        return energies(*model, strained).squeeze(1);
      };
      const at::Tensor difference = energy(step).sub(energy(-step)).div(2 * step).div(batch["volumes"]);
      EXPECT_LE(largest(stress.select(1, a).select(1, b).sub(difference)), 1e-6 * std::max(1.0, largest(difference)));
    }
  }
}

TEST_P(GnnPotentials, ForcesOfAGraphSumToZero) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  const Batch batch = some_graphs(config, some_structures(3), 3);
  const at::Tensor forces = outputs_of(*model, batch).at("forces").sub(batch["offsets.forces"]);
  const at::Tensor sums = at::zeros({batch["volumes"].size(0), 3}, at::kDouble).index_add(0, batch["graphs"], forces);
  EXPECT_GT(largest(forces), 0.0);
  EXPECT_LE(largest(sums), 1e-12 * std::max(1.0, largest(forces)) * static_cast<double>(forces.size(0)));
}

TEST_P(GnnPotentials, DoNotChangeWithRotationReflectionAndTranslation) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  std::vector<SmallStructure> structures = some_structures(4, false);
  const Batch batch = in_plain_units(some_graphs(config, structures, 4), config);
  const Outputs before = outputs_of(*model, batch);
  for (const double sign : {1.0, -1.0}) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    at::Tensor rotation = std::get<0>(at::linalg_qr(random_numbers({3, 3}, generator)));
    if ((at::linalg_qr(rotation), rotation.det().item<double>()) * sign < 0) rotation.select(1, 0).neg_();
    std::vector<SmallStructure> turned = structures;
    for (SmallStructure& structure : turned) {
      structure.positions = structure.positions.matmul(rotation).add(0.7);
      for (data::Vector3& vector : structure.cell.vectors) {
        const at::Tensor row = at::tensor({vector[0], vector[1], vector[2]}, at::kDouble).matmul(rotation);
        for (int64_t i = 0; i < 3; ++i) vector[static_cast<size_t>(i)] = row[i].item<double>();
      }
    }
    const Outputs after = outputs_of(*model, in_plain_units(some_graphs(config, turned, 4), config));
    EXPECT_LE(largest(after.at("energy").sub(before.at("energy"))), 1e-10);
    EXPECT_LE(largest(after.at("forces").sub(before.at("forces").matmul(rotation))), 1e-9);
  }
}

// Each atom moved by whole vectors of its crystal's cell.
std::vector<SmallStructure> with_atoms_in_other_cells(std::vector<SmallStructure> structures) {
  for (SmallStructure& structure : structures) {
    if (!structure.cell.is_periodic()) continue;
    structure.positions = structure.positions.clone();
    for (int64_t atom = 0; atom < structure.positions.size(0); ++atom) {
      const auto step = static_cast<int32_t>(atom);
      const data::Vector3 offset = data::image_offset({2 - step, step - 3, 1 + 2 * step}, structure.cell);
      structure.positions[atom].add_(at::tensor({offset[0], offset[1], offset[2]}, at::kDouble));
    }
  }
  return structures;
}

// The structures with the cells (a, b + 2 a, c - a) in place of (a, b, c), which span the same lattices.
std::vector<SmallStructure> with_skewed_cells(std::vector<SmallStructure> structures) {
  for (SmallStructure& structure : structures) {
    auto& [a, b, c] = structure.cell.vectors;
    for (size_t i = 0; i < 3; ++i) {
      b[i] += 2 * a[i];
      c[i] -= a[i];
    }
  }
  return structures;
}

TEST_P(GnnPotentials, DoNotChangeWithTheChoiceOfCell) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  const std::vector<SmallStructure> structures = some_structures(4, false);
  const auto batch_of = [&](const std::vector<SmallStructure>& list) {
    return in_plain_units(some_graphs(config, list, 4), config);
  };
  const Batch batch = batch_of(structures);
  const Outputs before = outputs_of(*model, batch);
  for (const auto& [change, changed] : {std::pair{"moved", batch_of(with_atoms_in_other_cells(structures))},
                                        std::pair{"skewed", batch_of(with_skewed_cells(structures))}}) {
    SCOPED_TRACE(change);
    EXPECT_EQ(changed.sizes, batch.sizes);
    const Outputs after = outputs_of(*model, changed);
    EXPECT_LE(largest(after.at("energy").sub(before.at("energy"))), 1e-10);
    EXPECT_LE(largest(after.at("forces").sub(before.at("forces"))), 1e-9);
    EXPECT_LE(largest(after.at("stress").sub(before.at("stress"))), 1e-10);
  }
}

TEST_P(GnnPotentials, DoNotChangeWithTheOrderOfAtoms) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(6);
  const SmallStructure structure{random_numbers({9, 3}, generator)};
  const at::Tensor order = at::randperm(9, generator, at::TensorOptions(at::kLong));
  Batch batch = in_plain_units(some_graphs(config, {structure}, 4), config);
  Batch other = in_plain_units(some_graphs(config, {{structure.positions.index_select(0, order)}}, 4), config);
  other.tensors["species"] = batch["species"].index_select(0, order);
  const Outputs before = outputs_of(*model, batch), after = outputs_of(*model, other);
  EXPECT_LE(largest(after.at("energy").sub(before.at("energy"))), 1e-10);
  EXPECT_LE(largest(after.at("forces").sub(before.at("forces").index_select(0, order))), 1e-9);
}

// Evaluation adds nothing to gradients and needs no training to compute forces.
TEST_P(GnnPotentials, EvaluationsHaveTheForcesOfTrainingAndLeaveGradientsAlone) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kFloat);
  const Batch batch = some_graphs(config, some_structures(7), 7);
  const Tensors trained = terms_and_gradients(*model, batch, training_pass(config));
  std::vector<at::Tensor> gradients;
  for (const nn::Parameter* parameter : model->parameters()) gradients.push_back(parameter->gradient.clone());
  Tensors evaluated;
  {
    const at::NoGradGuard no_grad;
    Pass pass = training_pass(config);
    pass.training = false;
    evaluated = model->loss(0, {}, batch, pass);
  }
  outputs_of(*model, batch);
  for (size_t term = 0; term < trained.size(); ++term) EXPECT_TRUE(trained[term].equal(evaluated[term])) << term;
  const std::vector<nn::Parameter*> parameters = model->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(parameters[i]->gradient.equal(gradients[i])) << parameters[i]->name;
  }
}

// Atoms at one place, of which no direction leads to the other, and atoms without edges.
TEST_P(GnnPotentials, AreFiniteAtDistanceZero) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kFloat);
  const SmallStructure same{at::zeros({2, 3}, at::kDouble)};
  at::Tensor far = at::zeros({2, 3}, at::kDouble);
  far[1][0] = 100.0;
  const Batch batch = some_graphs(config, {same, {far}}, 8);
  ASSERT_EQ(batch["receivers"].size(0), 2);
  for (const at::Tensor& term : terms_and_gradients(*model, batch, training_pass(config))) {
    EXPECT_TRUE(term.isfinite().all().item<bool>());
  }
  for (const nn::Parameter* parameter : model->parameters()) {
    EXPECT_TRUE(parameter->gradient.isfinite().all().item<bool>()) << parameter->name;
  }
  for (const auto& [name, tensor] : outputs_of(*model, batch))
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
}

INSTANTIATE_TEST_SUITE_P(Networks, GnnPotentials, ::testing::ValuesIn(potentials()), test_name);

// Networks whose messages fade out at the radius: all potentials but those that ask for none.
std::vector<SmallGnn> smooth_potentials() {
  std::vector<SmallGnn> list = potentials();
  std::erase_if(list, [](const SmallGnn& small) { return small.config.cutoff == Cutoff::none; });
  return list;
}

class SmoothPotentials : public ::testing::TestWithParam<SmallGnn> {};

// A third atom leaves the neighbourhood of one that has no other neighbour, and of one that has.
TEST_P(SmoothPotentials, DoNotJumpAtTheRadius) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  for (const bool has_another : {false, true}) {
    const int64_t atoms = has_another ? 3 : 2;
    const auto values_at = [&](double distance) {
      at::Tensor positions = at::zeros({atoms, 3}, at::kDouble);
      positions[1][2] = distance;
      if (has_another) positions[2][2] = -0.6 * config.radius;
      const Batch batch = some_graphs(config, {{positions}}, 1);
      EXPECT_EQ(batch["receivers"].size(0), (distance < config.radius ? 2 : 0) + (has_another ? 2 : 0));
      return outputs_of(*model, in_plain_units(batch, config));
    };
    const Outputs inside = values_at(config.radius - 1e-7), outside = values_at(config.radius + 1e-7);
    EXPECT_LE(largest(inside.at("energy").sub(outside.at("energy"))), 1e-12);
    EXPECT_LE(largest(inside.at("forces").sub(outside.at("forces"))), 1e-5);
    EXPECT_GE(largest(values_at(config.radius / 2).at("energy").sub(outside.at("energy"))), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, SmoothPotentials, ::testing::ValuesIn(smooth_potentials()), test_name);

TEST(Gnn, AllLayersButThoseOfEdgeNumbersHaveSmoothPotentials) {
  std::set<Conv> found;
  for (const SmallGnn& small : smooth_potentials()) found.insert(small.config.conv);
  EXPECT_EQ(found, (std::set{Conv::schnet, Conv::painn, Conv::egnn, Conv::gatv2, Conv::cgcnn}));
}

class GnnNetworks : public ::testing::TestWithParam<SmallGnn> {};

TEST_P(GnnNetworks, TakeBatchesWithoutGraphsAtomsOrEdges) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kFloat);
  const SmallStructure single{at::zeros({1, 3}, at::kDouble)}, none{at::zeros({0, 3}, at::kDouble)};
  for (const std::vector<SmallStructure>& structures :
       std::vector<std::vector<SmallStructure>>{{}, {none}, {single, single}}) {
    nn::zero_gradients(model->parameters());
    const Batch batch = some_graphs(config, structures, 9);
    for (const at::Tensor& term : terms_and_gradients(*model, batch, training_pass(config))) {
      EXPECT_TRUE(term.isfinite().all().item<bool>());
      if (structures.empty()) {
        EXPECT_EQ(largest(term), 0.0);
      }
    }
    for (const nn::Parameter* parameter : model->parameters()) {
      EXPECT_TRUE(parameter->gradient.isfinite().all().item<bool>()) << parameter->name;
      if (structures.empty()) {
        EXPECT_EQ(largest(parameter->gradient), 0.0) << parameter->name;
      }
    }
    for (const auto& [name, tensor] : outputs_of(*model, batch)) {
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
    }
  }
}

// Batch norm makes the outputs of a graph depend on the others in training.
std::vector<SmallGnn> without_batch_norm() {
  std::vector<SmallGnn> list = small_gnns();
  std::erase_if(list, [](const SmallGnn& small) { return small.config.norm == NormKind::batch; });
  return list;
}

class GnnGraphs : public ::testing::TestWithParam<SmallGnn> {};

// A batch, and each of its graphs alone.
TEST_P(GnnGraphs, HaveTheSameSumsOfOneBatchAndOfItsGraphs) {
  const ModelConfig& config = GetParam().config;
  const auto whole = drawn(config, at::kDouble), parts = drawn(config, at::kDouble);
  const std::vector<SmallStructure> structures = some_structures(10, false);
  const Batch batch = some_graphs(config, structures, 10);
  const Tensors sums = terms_and_gradients(*whole, batch, training_pass(config));
  Tensors added;
  int64_t first_atom = 0;
  for (size_t graph = 0; graph < structures.size(); ++graph) {
    Batch one = edges_of({structures[graph]}, config.radius, config.coarse_levels());
    const int64_t atoms = structures[graph].positions.size(0);
    for (const auto& [name, tensor] : batch.tensors) {
      if (one.tensors.contains(name)) continue;
      if (name.starts_with("scales.")) {
        one.tensors[name] = tensor;
      } else if (tensor.size(0) == batch["graphs"].size(0)) {
        one.tensors[name] = tensor.narrow(0, first_atom, atoms);
      } else {
        one.tensors[name] = tensor.narrow(0, static_cast<int64_t>(graph), 1);
      }
    }
    first_atom += atoms;
    const Tensors terms = terms_and_gradients(*parts, one, training_pass(config));
    for (size_t term = 0; term < terms.size(); ++term) {
      if (graph == 0) {
        added.push_back(terms[term]);
      } else {
        added[term] = added[term].add(terms[term]);
      }
    }
  }
  // Only the sums of errors and squares of figures add up; spreads are those of each batch.
  const auto sum_of = [](const at::Tensor& term) { return term.dim() == 1 ? term.narrow(0, 0, 2) : term; };
  for (size_t term = 0; term < sums.size(); ++term) {
    const at::Tensor whole_sum = sum_of(sums[term]);
    EXPECT_LE(largest(whole_sum.sub(sum_of(added[term]))), 1e-5 * std::max(1.0, largest(whole_sum))) << term;
  }
  const std::vector<nn::Parameter*> parameters = whole->parameters(), others = parts->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_LE(largest(parameters[i]->gradient.sub(others[i]->gradient)),
              1e-11 * std::max(1.0, largest(parameters[i]->gradient)))
        << parameters[i]->name;
  }
}

// The tensors that pass from unit to unit have the stated shapes, and are all that the next unit needs.
TEST_P(GnnNetworks, ComputeTheSameUnitByUnit) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kFloat);
  const Batch batch = some_graphs(config, some_structures(11), 11);
  const Pass pass = training_pass(config);
  const Tensors whole = model->loss(0, {}, batch, pass);
  Tensors x;
  for (int64_t unit = 0; unit + 1 < model->num_units(); ++unit) {
    x = model->forward(unit, unit + 1, x, batch, pass);
    const std::vector<TensorShape> shapes = model->output_shapes(unit, batch);
    ASSERT_EQ(shapes.size(), x.size());
    int64_t bytes = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(x[i].sizes().vec(), shapes[i].sizes);
      EXPECT_EQ(x[i].scalar_type(), shapes[i].type);
      bytes += static_cast<int64_t>(x[i].nbytes());
    }
    const auto table = unit_table(config, {.samples = batch.samples.size(0), .sizes = batch.sizes});
    if (!config.has_derivatives()) {
      EXPECT_EQ(bytes, table[static_cast<size_t>(unit)].output_bytes);
    }
  }
  const Tensors by_units = model->loss(model->num_units() - 1, x, batch, pass);
  for (size_t term = 0; term < whole.size(); ++term) {
    // The parts of a gradient by the vectors are added in double precision where units compute them apart.
    const double rounding = config.has_derivatives() ? 1e-6 * largest(whole[term]) : 0;
    EXPECT_LE(largest(whole[term].sub(by_units[term])), rounding) << term;
  }
}

// Units read only the tensors that their rows name.
TEST_P(GnnNetworks, ReadTheTensorsOfTheirRows) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kFloat);
  const Batch batch = some_graphs(config, some_structures(12), 12);
  const auto table = unit_table(config, {});
  Tensors x;
  for (int64_t unit = 0; unit < model->num_units(); ++unit) {
    Batch own = batch;
    const std::vector<std::string>& names = table[static_cast<size_t>(unit)].batch_tensors;
    std::erase_if(own.tensors,
                  [&](const auto& tensor) { return std::ranges::find(names, tensor.first) == names.end(); });
    if (unit + 1 < model->num_units()) {
      x = model->forward(unit, unit + 1, x, own, training_pass(config));
    } else {
      model->loss(unit, x, own, training_pass(config));
      model->outputs(unit, x, own, {});
    }
  }
}

TEST_P(GnnNetworks, HaveAsManyParametersAsTheClosedForm) {
  const ModelConfig& config = GetParam().config;
  EXPECT_EQ(parameter_count(config), schedule::elements(unit_table(config, {})));
}

INSTANTIATE_TEST_SUITE_P(Networks, GnnGraphs, ::testing::ValuesIn(without_batch_norm()), test_name);

// The running statistics of batch norm belong to no batch.
TEST(GnnBatchNorm, EvaluatesAGraphAloneAsBesideOthers) {
  ModelConfig config = small_gnn(Conv::gin, many_outputs());
  config.norm = NormKind::batch;
  config = with_derived_values(config);
  const auto model = drawn(config, at::kDouble);
  const at::Tensor positions = at::eye(3, at::kDouble);
  const Batch one = some_graphs(config, {{positions}}, 14);
  terms_and_gradients(*model, some_graphs(config, some_structures(13), 13), training_pass(config));
  std::vector<at::Tensor> statistics;
  for (const nn::Buffer* buffer : model->buffers()) statistics.push_back(buffer->value.clone());
  Batch two = some_graphs(config, {{positions}, {positions.mul(2.0)}}, 14);
  two.tensors["species"].narrow(0, 0, 3).copy_(one["species"]);
  const Outputs alone = outputs_of(*model, in_plain_units(one, config));
  const Outputs beside = outputs_of(*model, in_plain_units(two, config));
  for (const auto& [name, value] : alone) {
    EXPECT_LE(largest(value.sub(beside.at(name).narrow(0, 0, value.size(0)))), 1e-12) << name;
  }
  for (size_t i = 0; i < statistics.size(); ++i) EXPECT_TRUE(statistics[i].equal(model->buffers()[i]->value)) << i;
}

// A second forward of the same micro-batch, a step with one atom and one with numbers that are not finite.
TEST(GnnBatchNorm, LeavesRunningStatisticsAlone) {
  ModelConfig config = small_gnn(Conv::gin, many_outputs());
  config.norm = NormKind::batch;
  config = with_derived_values(config);
  const auto model = drawn(config, at::kFloat);
  const auto expect_change = [&](const Batch& batch, bool repeated, bool changes) {
    std::vector<at::Tensor> before;
    for (const nn::Buffer* buffer : model->buffers()) before.push_back(buffer->value.clone());
    Pass pass = training_pass(config);
    pass.repeated = repeated;
    model->loss(0, {}, batch, pass);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].equal(model->buffers()[i]->value), !changes) << model->buffers()[i]->name;
    }
  };
  const Batch batch = some_graphs(config, some_structures(15), 15);
  expect_change(batch, false, true);
  expect_change(batch, true, false);
  expect_change(some_graphs(config, {{at::zeros({1, 3}, at::kDouble)}}, 15), false, false);
  model->parameters().front()->value.detach().fill_(std::nan(""));
  expect_change(batch, false, false);
}

INSTANTIATE_TEST_SUITE_P(Networks, GnnNetworks, ::testing::ValuesIn(small_gnns()), test_name);

}  // namespace
}  // namespace terrace::models::gnn
