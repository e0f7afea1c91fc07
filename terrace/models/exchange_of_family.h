// The part of a family whose models other programs can read and write: the layout of Python's library transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/config/family.h"

namespace terrace::models {

// One tensor of a transformers checkpoint. Each of `views` returns a view of our parameter; the elements of these
// views, one view after the other, are those of the tensor in their order, so the same views serve reading and writing.
struct HfTensor {
  std::string name;            // "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;  // in transformers
  // The name of our parameter, "blocks.0.attention.qkv.weight"; "" for a bias that our model does not have and that is
  // zero in transformers.
  std::string parameter;
  std::vector<std::function<at::Tensor(const at::Tensor&)>> views;  // at least one
};

class ExchangeOfFamily {
 public:
  virtual ~ExchangeOfFamily() = default;

  // The values of model_type in the config.json files that the family reads.
  virtual std::vector<std::string> hf_types() const = 0;
  // Makes an empty configuration of the family that of the model in a config.json with one of these types, and names
  // data to start from; `name` is for error messages. Returns the names of keys that may say something of the model and
  // are not read. Throws UserError with key and value for features that models of the family do not have.
  virtual std::vector<std::string> read_hf_config(const Json& json, const std::string& name,
                                                  config::Config& config) const = 0;
  // Changes the model where the stored tensors are not those that config.json says, and returns a sentence about each
  // change. `stored` gives the tensor of a name, undefined where there is none.
  virtual std::vector<std::string> follow_hf_tensors(const std::function<at::Tensor(const std::string&)>& stored,
                                                     config::Config& config) const = 0;
  // config.json without the ids of the tokenizer's special tokens. Throws UserError if no layout can express the model,
  // with what each layout would need.
  virtual Json hf_config(const config::Config& config) const = 0;
  // The tensors in the order of transformers. Together they cover every parameter except rows that pad a vocabulary.
  // Throws UserError as hf_config() does.
  virtual std::vector<HfTensor> hf_tensors(const config::Config& config) const = 0;
  // Whether a tensor in a file of transformers is no weight of the model: a mask or a table, which older versions
  // saved, or the copy of a matrix that the model ties to another one.
  virtual bool is_hf_buffer(const config::Config& config, const std::string& name) const = 0;
  // Gives their defaults to the keys that have no effect in a run that starts from the model's weights.
  virtual void forget_initial_values(config::Config& config) const = 0;
};

// Throws UserError, with what can be done with models of the family instead, if transformers has no layout for them.
const ExchangeOfFamily& exchange_of_family(const config::Config& config);

}  // namespace terrace::models
