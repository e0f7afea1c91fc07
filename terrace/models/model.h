// The interface of every model for the trainer, parallelism and the pipeline: a list of units that run one after
// another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/source.h"
#include "terrace/nn/module.h"
#include "terrace/observe/figures.h"
#include "terrace/ops/attention/context_attention.h"
#include "terrace/ops/weight.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models {

using Tensors = std::vector<at::Tensor>;
using Outputs = std::map<std::string, at::Tensor>;  // by name, such as "logits"

// One micro-batch: the numbers of its samples, and the tensors that the units of the family read, by name. The tensors
// may have any type and shape, and shapes may differ between micro-batches.
struct Batch {
  at::Tensor samples;  // [items] int64: the number of each sample in the run, for dropout
  std::map<std::string, at::Tensor, std::less<>> tensors = {};
  // The count of each loss of the model in this micro-batch: the number of things over which the loss is summed, such
  // as tokens, or the sum of their weights.
  std::vector<double> counts = {};
  Sizes sizes = {};           // data::MicroBatch::sizes
  ContextPlaces places = {};  // data::MicroBatch::places

  // Undefined if the batch has no tensor of the name.
  const at::Tensor& operator[](std::string_view name) const;
};

// The micro-batch as tensors of the host. Its memory becomes theirs without a copy, or, for copies to a GPU beside what
// it computes, the tensors are in pinned memory.
Batch on_host(data::MicroBatch micro_batch, bool pinned = false);
// Copies the tensors to the device, in the order of its work; on the CPU nothing is copied.
Batch to_device(Batch batch, at::Device device);

// The way in which the numbers of a term over several micro-batches become one.
enum class Combine { sum, largest };

// One of the terms of a model's loss. Each term is summed over the whole global batch and divided by its count in that
// batch; training minimises the sum of these means, each times its weight. A term of weight 0 is not trained on:
// figures are made of it (observe/figures.h). Only such a term may have several numbers, as one for each variable of a
// forecast has, or take the largest.
struct LossTerm {
  std::string name = "loss";
  double weight = 1.0;
  int64_t numbers = 1;
  Combine combine = Combine::sum;
};

// The divisor of a sum: its count over the whole step, or 1 where there is nothing to count.
inline double divisor_of(double count) { return count > 0 ? count : 1.0; }

// Numbers that the units of any stage add up in training, each for its own samples and positions, such as the loads of
// experts and the losses that balance them. They are summed over the whole step. Their gradients are the units' own
// (Pass::sample_scale); evaluations have none.
struct Tally {
  std::string name;
  int64_t numbers = 1;
};

// The choices of the first forward of a segment, by name, for the forward that recompute makes: they must not be made
// twice, since scores that are computed again may differ in the last bit.
using KeptChoices = std::map<std::string, Tensors, std::less<>>;

// Returns d(scaled loss) / d(summed loss) for each loss, given the counts of the losses over the whole step.
std::vector<double> gradient_scales(const std::vector<LossTerm>& losses, const std::vector<double>& counts,
                                    double loss_scale);
// The weighted sum of means that training minimises, from sums over the same samples.
double weighted_mean(const std::vector<LossTerm>& losses, const observe::TermSums& sums);
// The larger number; NaN if one of them is, so that it shows.
double larger(double a, double b);
// Gives each term the count that belongs to it.
void set_counts(const std::vector<double>& counts, observe::TermSums& sums);
// Sums over no samples: zeros, and the lowest number where the largest is taken.
observe::TermSums no_sums(const std::vector<LossTerm>& losses);
// Adds the sums over other samples.
void add(const std::vector<LossTerm>& losses, const observe::TermSums& more, observe::TermSums& sums);

// A tensor that passes from one unit to the next.
struct TensorShape {
  std::vector<int64_t> sizes;  // on a rank without sequence parallelism
  at::ScalarType type = at::kFloat;
  int64_t sequence_dim = -1;  // the dimension that sequence parallelism cuts; -1: none
};

// Data that a family hands to its own models with a pass; only the family that made them reads them.
class PassExtension {
 public:
  virtual ~PassExtension() = default;
};

// The options of one pass through the model.
struct Pass {
  bool training = false;  // dropout is drawn and recompute applied
  uint64_t seed = 0;      // of dropout, together with step, sample and position
  int64_t step = 0;
  // The value of d(scaled loss) / d(summed loss) for each loss of the model: loss scale * weight / count in the whole
  // step.
  std::vector<double> gradient_scales = {1.0};
  // Loss scale / samples of the whole step: the gradient of what units themselves add to the loss for each sample.
  double sample_scale = 1.0;
  bool recompute_attention = false;
  PassExtension* extension = nullptr;  // owned by the caller; null in training
  // The ranks among which the positions of each sample are cut: tensors by position have those of this rank. Null: this
  // rank has all positions.
  std::shared_ptr<const ops::ContextCut> context = nullptr;
  // The ranks that divide the experts of each layer, outliving the pass; null: this rank has all of them.
  ops::MovingRanks* experts = nullptr;
  ops::WeightGradientQueue* deferred = nullptr;  // backward leaves the weight gradients here
  // A forward that recompute makes a second time. A model that changes a buffer in training does so in the first one.
  bool repeated = false;
  std::shared_ptr<KeptChoices> kept = nullptr;  // null: this forward is not made a second time
};

// A model is a list of units, 0 .. num_units() - 1, such as embedding, halves of layers and head. Its unit table
// (schedule/unit_table.h) describes everything about the units except their computation. The consecutive units of a
// segment (schedule/partition.h) are computed together.
class Model : public nn::Module {
 public:
  virtual int64_t num_units() const = 0;
  // Parameters of one unit, in the order of its row in the unit table.
  virtual std::vector<nn::Parameter*> unit_parameters(int64_t unit) = 0;
  // Buffers of one unit, in the order of its row in the unit table.
  virtual std::vector<nn::Buffer*> unit_buffers(int64_t /*unit*/) { return {}; }
  // Computes the units [begin, end), which do not include the model's last unit. Unit 0 takes no tensors and reads the
  // batch; every other unit takes the output of the unit before it.
  virtual Tensors forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) = 0;
  // Computes the units from `begin` to the last one. Returns for each of losses() its sum over the micro-batch, an fp32
  // scalar on the device, whose backward yields gradients multiplied by the gradient scale of the loss, or an fp32
  // vector of the term's numbers. Of an empty micro-batch a largest number is -infinity.
  virtual Tensors loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) = 0;
  virtual std::vector<LossTerm> losses() const { return {LossTerm{}}; }
  virtual std::vector<Tally> tallies() const { return {}; }
  // The numbers of each tally, summed over this rank's forwards in training since the last call.
  virtual std::vector<std::vector<double>> take_tallies() { return {}; }
  // Called on every rank after the update of a step, with its tallies summed over all ranks.
  virtual void end_step(const std::vector<std::vector<double>>& /*tallies*/) {}
  // Whether the loss depends on leaves of its graph that are neither parameters nor inputs, such as the vectors by
  // which an energy is differentiated. Its backward then goes to leaves_of_loss() alone.
  virtual bool has_other_leaves() const { return false; }
  // Computes the units from `begin` to the last one without a loss: what the model says of a batch, which needs no
  // targets, by name. Whole tensors on every rank, detached. Throws UserError where the family has none.
  virtual Outputs outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass);
  // The shapes of the output of a unit other than the last one for a micro-batch. The number and the types of the
  // tensors are the same for every micro-batch.
  virtual std::vector<TensorShape> output_shapes(int64_t unit, const Batch& batch) const = 0;
  virtual at::Device device() const = 0;
};

// The leaves to which the backward of a loss goes that was computed of `input` by the units from `begin` on: those of
// the units' parameters and of the input that have gradients. Empty: all that the graph has.
Tensors leaves_of_loss(Model& model, int64_t begin, const Tensors& input);

// Gives the parameters the marks of the unit table of a model that was built for `type` (nn::Build). Aborts if names,
// shapes or types of parameters or buffers differ from the table, or if a parameter stays unmarked.
void mark_parameters(Model& model, const schedule::UnitTable& table, at::ScalarType type);

// Aborts with the parameter's name if a parameter is unmarked or cut in a dimension that it does not have.
void check_marks(const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::models
