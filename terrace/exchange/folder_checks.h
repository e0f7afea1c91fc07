// Checks that an import takes all that a folder for transformers holds: what it cannot take is refused or named.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "terrace/checkpoint/hf_folder.h"
#include "terrace/models/exchange_of_family.h"

namespace terrace::exchange {

// The name of the tensor in this folder: models saved without a head omit the leading "transformer." or "model.". "" if
// it is missing.
std::string name_in(const checkpoint::HfFolder& folder, const std::string& name);

// Throws UserError that names the tensors that are missing, have another shape or type, or are none of the model's.
void check_names(const checkpoint::HfFolder& folder, const std::vector<models::HfTensor>& layout,
                 const config::Config& config);

// A sentence about a tensor with values that are not finite; "" if all are.
std::string problem_with_values(const std::string& name, const at::Tensor& values);

// Throws UserError for an adapter beside the weights, which transformers would add to them.
void check_adapters(const checkpoint::HfFolder& folder);

// The files and folders of `folder`, without texts about the model and hidden ones, that an import does not read.
std::vector<std::string> unused_files(const checkpoint::HfFolder& folder);

}  // namespace terrace::exchange
