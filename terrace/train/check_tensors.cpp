// Compares a checkpoint with the parameters in the model's unit table, so that no model is built for it.
#include "terrace/train/check_tensors.h"

#include <ATen/ops/empty.h>

#include "terrace/base/error.h"
#include "terrace/schedule/description.h"
#include "terrace/train/gradient_errors.h"
#include "terrace/train/initial_weights.h"

namespace terrace::train {
namespace {

void check_collection(const config::Config& config, const checkpoint::Reader& checkpoint, const char* name,
                      Depth depth) {
  checkpoint.check_fits(whole_collection(config, name));
  if (depth == Depth::checksums) checkpoint.check_files(name);
}

}  // namespace

checkpoint::Collection whole_collection(const config::Config& config, const std::string& name) {
  checkpoint::Collection collection{.name = name, .tensors = {}};
  const auto add = [&](const std::string& tensor, const std::vector<int64_t>& shape) {
    collection.tensors.push_back({.name = tensor,
                                  .tensor = at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta)),
                                  .mark = ParamMark::replicated(shape)});
  };
  for (const schedule::UnitRow& row : schedule::unit_table(config)) {
    if (name == checkpoint::buffers_collection) {
      for (const schedule::UnitBuffer& buffer : row.buffers) add(buffer.name, buffer.shape);
    } else {
      for (const schedule::UnitParameter& parameter : row.parameters) add(parameter.name, parameter.mark.global_shape);
    }
  }
  return collection;
}

std::string check_initial_weights(const config::Config& config, Depth depth) {
  const std::string& path = config.train.initial_weights;
  if (path.empty()) return "";
  try {
    const checkpoint::Reader checkpoint(checkpoint::resolve(path));
    const InitialWeights initial(config, checkpoint);
    if (depth == Depth::checksums) {
      for (const char* collection : {"weights", checkpoint::buffers_collection}) checkpoint.check_files(collection);
    }
    return initial.text();
  } catch (const UserError& error) {
    throw UserError(fmt::format("train.initial_weights = \"{}\": {}", path, error.what()), error.code);
  }
}

void check_resumed_tensors(const config::Config& config, const checkpoint::Reader& checkpoint, Depth depth) {
  for (const char* collection : {"weights", "optimizer_m", "optimizer_v", checkpoint::buffers_collection}) {
    check_collection(config, checkpoint, collection, depth);
  }
  const bool may_need_errors = config.layout.error_feedback && checkpoint.trainer().contains(errors_layout_key);
  if (may_need_errors && depth == Depth::checksums) checkpoint.check_files(errors_collection);
}

}  // namespace terrace::train
