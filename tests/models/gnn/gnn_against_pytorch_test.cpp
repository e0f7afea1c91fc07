// Compares outputs, losses, errors, running statistics and every gradient of small graph networks with
// torch_geometric's layers and, where it has none, with plain PyTorch; of potentials through the derivatives of their
// energies.
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/text/json.h"
#include "tests/models/gnn/small_graphs.h"
#include "tests/pytorch/reference.h"

namespace terrace::models::gnn {
namespace {

Json options_of_gnn(const ModelConfig& config) {
  Json options = {{"conv", config::name_of(config.conv)},
                  {"reading", config::name_of(config.reading)},
                  {"reading_version", config.reading_version},
                  {"cutoff", config::name_of(config.cutoff)},
                  {"activation", config::name_of(config.activation)},
                  {"pooling", config::name_of(config.pooling)},
                  {"norm", config::name_of(config.norm)},
                  {"layers", config.layers},
                  {"pool_every", config.pool_every},
                  {"radius", config.radius},
                  {"radial", config.radial},
                  {"heads", config.heads},
                  {"branches", config.branches},
                  {"outputs", Json::array()}};
  for (const OutputConfig& output : config.outputs) {
    options["outputs"].push_back({{"name", output.name},
                                  {"level", config::name_of(output.level)},
                                  {"columns", output.columns},
                                  {"loss", config::name_of(output.loss)},
                                  {"head", config::name_of(output.head)},
                                  {"per_atom", output.per_atom},
                                  {"uncertain", output.uncertain},
                                  {"derivative_of", output.derivative_of},
                                  {"derivative", config::name_of(output.derivative)}});
  }
  return options;
}

// Numbers that the type holds, so that both programs begin with the same ones.
Batch rounded_graphs(const ModelConfig& config, uint64_t seed, at::ScalarType type) {
  Batch batch = some_graphs(config, some_structures(seed), seed);
  for (auto& [name, tensor] : batch.tensors) {
    if (tensor.is_floating_point()) tensor = tensor.to(type).to(tensor.scalar_type());
  }
  return batch;
}

testing::Tensors given(Gnn& model, const Batch& batch, const ModelConfig& config, const Pass& pass) {
  testing::Tensors inputs;
  for (size_t i = 0; i < config.outputs.size(); ++i) {
    inputs["upstream.loss." + config.outputs[i].name] = at::full({}, pass.gradient_scales[i]);
  }
  for (const auto& [name, tensor] : batch.tensors) inputs[name] = tensor;
  for (const nn::Parameter* parameter : model.parameters()) inputs[parameter->name] = parameter->value;
  return inputs;
}

testing::Tensors computed(Gnn& model, const Batch& batch, const ModelConfig& config, const Pass& pass) {
  testing::Tensors results;
  const Tensors terms = terms_and_gradients(model, batch, pass);
  const at::NoGradGuard no_grad;
  const Outputs outputs = model.outputs(0, {}, batch, {});
  for (size_t i = 0; i < config.outputs.size(); ++i) {
    const std::string& name = config.outputs[i].name;
    results["loss." + name] = terms.at(i);
    results["errors." + name] = terms.at(config.outputs.size() + i);
    results["value." + name] = outputs.at(name);
  }
  for (const nn::Parameter* parameter : model.parameters()) {
    results["gradient." + parameter->name] = parameter->gradient;
  }
  for (const nn::Buffer* buffer : model.buffers()) results["buffer." + buffer->name] = buffer->value;
  return results;
}

// The name under which errors of a result are judged: gradients layer by layer and head by head, as one vector each.
std::string judged_name(const std::string& name) {
  if (!name.starts_with("gradient.")) return name;
  size_t end = name.find('.', name.find('.') + 1);
  if (name.find(".layers.") != std::string::npos || name.find(".head.") != std::string::npos)
    end = name.find('.', end + 1);
  return name.substr(0, end);
}

// Adds gradients in units of the size of all gradients of the draw, so that no draw outweighs the others.
void add_draw(testing::ErrorTally& tally, const testing::Tensors& ours, const testing::Reference& reference) {
  ASSERT_FALSE(reference.exact.empty());
  double squares = 0;
  for (const auto& [name, exact] : reference.exact) {
    if (name.starts_with("gradient.")) squares += exact.square().sum().item<double>();
  }
  for (const auto& [name, exact] : reference.exact) {
    ASSERT_TRUE(ours.contains(name)) << name << " was not computed";
    const double unit = name.starts_with("gradient.") ? std::sqrt(squares) : 1.0;
    const auto in_units = [&](const at::Tensor& tensor) { return tensor.to(at::kDouble).div(unit); };
    tally.add(judged_name(name), in_units(ours.at(name)), in_units(reference.theirs.at(name)), in_units(exact));
  }
}

// Leaves out gradients of the batch's tensors, which get none in terrace.
void leave_out_inputs(const Batch& batch, testing::Tensors& results) {
  std::erase_if(results, [&](const auto& result) {
    return result.first.starts_with("gradient.") && batch.tensors.contains(result.first.substr(9));
  });
}

class GnnAgainstPyTorch : public ::testing::TestWithParam<SmallGnn> {
 protected:
  static void SetUpTestSuite() { pytorch = std::make_unique<testing::PyTorch>(); }
  static void TearDownTestSuite() { pytorch.reset(); }

  static std::unique_ptr<testing::PyTorch> pytorch;
};
std::unique_ptr<testing::PyTorch> GnnAgainstPyTorch::pytorch;

TEST_P(GnnAgainstPyTorch, IsAsAccurateInFp32) {
  const ModelConfig& config = GetParam().config;
  // Most of the error of a draw is that of one graph, so its ratio to theirs is a matter of luck in few draws; and
  // maxima over neighbours have derivatives with jumps.
  testing::ErrorTally tally(at::kFloat, testing::ErrorTally::Draws::equal);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto model = drawn(config, at::kFloat, seed);
    const Batch batch = rounded_graphs(config, seed, at::kFloat);
    const Pass pass = training_pass(config);
    const auto ours = computed(*model, batch, config, pass);
    auto reference = pytorch->run("models/gnn/gnn_cases.py", "gnn", options_of_gnn(config), at::kFloat,
                                  given(*model, batch, config, pass));
    leave_out_inputs(batch, reference.exact);
    leave_out_inputs(batch, reference.theirs);
    add_draw(tally, ours, reference);
  }
  tally.expect_as_accurate();
}

// Sums that are returned in fp32 even by a model of doubles are compared to their rounding.
TEST_P(GnnAgainstPyTorch, EqualsItTo1e10InFp64) {
  const ModelConfig& config = GetParam().config;
  const auto model = drawn(config, at::kDouble);
  const Batch batch = some_graphs(config, some_structures(0), 0);
  const Pass pass = training_pass(config);
  const auto ours = computed(*model, batch, config, pass);
  auto reference = pytorch->run("models/gnn/gnn_cases.py", "gnn", options_of_gnn(config), at::kDouble,
                                given(*model, batch, config, pass));
  leave_out_inputs(batch, reference.exact);
  for (const auto& [name, exact] : reference.exact) {
    const at::Tensor own = ours.at(name).to(at::kDouble);
    ASSERT_EQ(own.sizes(), exact.sizes()) << name;
    const double error = own.sub(exact).abs().max().item<double>();
    const double size = std::max(1.0, exact.abs().max().item<double>());
    const bool in_fp32 = name.starts_with("loss.") || name.starts_with("errors.");
    EXPECT_LE(error, (in_fp32 ? 1e-6 : 1e-10) * size) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, GnnAgainstPyTorch, ::testing::ValuesIn(small_gnns()), test_name);

}  // namespace
}  // namespace terrace::models::gnn
