// What every family of model offers to the trainer, the cutter and the pipeline: a list of units run one after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/config/config.h"
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

// A model is a list of units, 0 .. num_units() - 1, such as embedding, halves of layers and head; its unit table
// (models/cost/unit_table.h) says everything about them that is no computation. What is computed at once are the
// consecutive units of a segment (schedule/partition.h).
class Model : public nn::Module {
 public:
  virtual int64_t num_units() const = 0;
  // Parameters of one unit, in the order of its row in the unit table.
  virtual std::vector<nn::Parameter*> unit_parameters(int64_t unit) = 0;
  // The units [begin, end), without the last one of the model. Unit 0 takes an undefined tensor and reads the batch;
  // the last but one gives hidden states [B, T, D] after the final norm or before it as the model likes.
  virtual at::Tensor forward(int64_t begin, int64_t end, const at::Tensor& hidden, const Batch& batch,
                             const Pass& pass) = 0;
  // The units from `begin` to the last one in training: the sum over counted tokens of the loss, fp32 scalar on the
  // device. Its backward yields gradients multiplied by pass.gradient_scale.
  virtual at::Tensor loss(int64_t begin, const at::Tensor& hidden, const Batch& batch, const Pass& pass) = 0;
  // Shape of the output of a unit, which is not the last one.
  virtual std::vector<int64_t> hidden_sizes(int64_t unit, const Batch& batch) const = 0;
  virtual at::TensorOptions hidden_options() const = 0;
};

// What a family offers beside that whose models generate text.
class Generator {
 public:
  virtual ~Generator() = default;
  // Of the output of the last unit but one: logits [B, T, vocabulary] in fp32, without the padding of the vocabulary.
  virtual at::Tensor logits(const at::Tensor& hidden, const Pass& pass) = 0;
  // Keys and values of `batch` sequences of up to `length` tokens, for Pass::cache.
  virtual std::unique_ptr<KeyValueCache> make_cache(int64_t batch, int64_t length) = 0;
};

// Builds the model of config.family and gives its parameters the marks of its unit table. Aborts where names or shapes
// differ from the table, or a parameter stays unmarked.
std::unique_ptr<Model> build_model(const config::ModelConfig& config, const nn::Build& build);

// Aborts, naming the parameter, where one is unmarked or cut in a dimension it does not have.
void check_marks(const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::models
