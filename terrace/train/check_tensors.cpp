// Compares a checkpoint with the parameters in the model's unit table, so that no model is built for it.
#include "terrace/train/check_tensors.h"

#include <ATen/ops/empty.h>

#include "terrace/base/error.h"
#include "terrace/schedule/description.h"
#include "terrace/train/gradient_errors.h"

namespace terrace::train {
namespace {

// All parameters of the model as whole tensors without memory.
checkpoint::Group whole_group(const config::Config& config, const char* name) {
  checkpoint::Group group{.name = name, .tensors = {}};
  for (const schedule::UnitRow& row : schedule::unit_table(config)) {
    for (const schedule::UnitParameter& parameter : row.parameters) {
      const std::vector<int64_t>& shape = parameter.mark.global_shape;
      group.tensors.push_back({.name = parameter.name,
                               .tensor = at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta)),
                               .mark = ParamMark::replicated(shape)});
    }
  }
  return group;
}

void check_group(const config::Config& config, const checkpoint::Reader& checkpoint, const char* name, Depth depth) {
  checkpoint.check_fits(whole_group(config, name));
  if (depth == Depth::checksums) checkpoint.check_files(name);
}

}  // namespace

void check_initial_weights(const config::Config& config, Depth depth) {
  const std::string& path = config.train.initial_weights;
  if (path.empty()) return;
  try {
    check_group(config, checkpoint::Reader(checkpoint::resolve(path)), "weights", depth);
  } catch (const UserError& error) {
    throw UserError(fmt::format("train.initial_weights = \"{}\": {}", path, error.what()), error.code);
  }
}

void check_resumed_tensors(const config::Config& config, const checkpoint::Reader& checkpoint, Depth depth) {
  for (const char* group : {"weights", "optimizer_m", "optimizer_v"}) check_group(config, checkpoint, group, depth);
  const bool may_need_errors = config.layout.error_feedback && checkpoint.trainer().contains(errors_layout_key);
  if (may_need_errors && depth == Depth::checksums) checkpoint.check_files(errors_group);
}

}  // namespace terrace::train
