// What every family of model offers to the trainer, the cutter and the pipeline: a list of units run one after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/activation_options.h"
#include "terrace/nn/module.h"
#include "terrace/ops/weight.h"

namespace terrace::models {

// One micro-batch. B sequences of T tokens.
struct Batch {
  at::Tensor tokens;     // [B, T] int64
  at::Tensor targets;    // [B, T] int64; -1 is not counted in the loss
  at::Tensor positions;  // [B, T] int64; undefined: 0 .. T-1
  at::Tensor documents;  // [B, T] int64, equal within a document; undefined: attention over the whole sequence
  at::Tensor samples;    // [B] int64: the number of each sample in the run, for dropout
};

class KeyValueCache;

// How one pass through the model is made.
struct Pass {
  bool training = false;  // dropout is drawn and recompute applied
  uint64_t seed = 0;      // of dropout, together with step, sample and position
  int64_t step = 0;
  double gradient_scale = 1.0;  // d(scaled loss)/d(summed loss): loss scale / tokens counted in the whole step
  bool recompute_attention = false;
  // Position of the first hidden state between layers, on a rank that has a part of the positions.
  int64_t first_position = 0;
  KeyValueCache* cache = nullptr;  // generation: keys and values of earlier positions; owned by the caller
  ops::WeightGradientQueue* deferred = nullptr;  // backward leaves the weight gradients here
};

// A model is embedding, blocks and head as units 0 .. num_units() - 1; a pipeline stage is a range of them, and gathers
// of weights and recompute work on whole units. A block between two stages may be cut into two units.
class Model : public nn::Module {
 public:
  virtual int64_t num_units() const = 0;
  // Parameters of one unit, in order. A tied parameter belongs to the first unit that uses it.
  virtual std::vector<nn::Parameter*> unit_parameters(int64_t unit) = 0;
  // Units whose parameters this one reads, itself included where it has any: more than itself where some are tied.
  virtual std::vector<int64_t> used_units(int64_t unit) { return {unit}; }
  // Unit 0 takes an undefined tensor and reads the batch; the last but one gives hidden states [B, T, D] after the
  // final norm or before it as the model likes.
  virtual at::Tensor forward_unit(int64_t unit, const at::Tensor& hidden, const Batch& batch, const Pass& pass) = 0;
  // The last unit in training: the sum over counted tokens of the loss, fp32 scalar on the device. Its backward yields
  // gradients multiplied by pass.gradient_scale.
  virtual at::Tensor loss(const at::Tensor& hidden, const Batch& batch, const Pass& pass) = 0;
  // The last unit in generation: logits [B, T, vocabulary] in fp32, without the padding of the vocabulary.
  virtual at::Tensor logits(const at::Tensor& hidden, const Pass& pass) = 0;
  // Of what unit `unit`, which is not the last one, hands to the next.
  virtual std::vector<int64_t> hidden_sizes(int64_t unit, const Batch& batch) const = 0;
  virtual at::TensorOptions hidden_options() const = 0;
  // What each unit costs, in any measure that is proportional to time; for sharing units out over pipeline stages.
  virtual std::vector<double> unit_costs() const = 0;
  // The costs of the two parts that halve() makes of a unit, in their order; together the unit's. Empty: it stays
  // whole.
  virtual std::vector<double> half_costs(int64_t /*unit*/) const { return {}; }
  // Cuts the unit into two, one after the other, so that those behind it move by one. Computes the same as before.
  // Called before anything else is made of the units.
  virtual void halve(int64_t unit);
  // Floating-point operations of a training step without what recompute repeats, as MFU counts them.
  virtual double step_flops(int64_t sequences) const = 0;
  // Bytes of tensors that a unit keeps from the forward of a micro-batch of whole sequences to its backward, its input
  // included and its output not. 0 for the last one, whose backward follows at once.
  virtual int64_t activation_bytes(int64_t unit, const ActivationOptions& options) const = 0;
  // Bytes of tensors that a unit keeps from a backward that puts its weight gradients off to these: the inputs of its
  // weights and the gradients of their outputs. 0 where it puts none off, as the last one.
  virtual int64_t weight_input_bytes(int64_t unit, const ActivationOptions& options) const = 0;
  virtual std::unique_ptr<KeyValueCache> make_cache(int64_t batch, int64_t length) = 0;
};

// Builds the model of config.family and marks its parameters. Aborts where a parameter stays unmarked.
std::unique_ptr<Model> build_model(const config::ModelConfig& config, const nn::Build& build);

// Aborts, naming the parameter, where one is unmarked or cut in a dimension it does not have.
void check_marks(const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::models
