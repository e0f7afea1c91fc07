// Loads the model and the tokenizer of a checkpoint for generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "terrace/config/config.h"
#include "terrace/data/text/tokenizer.h"
#include "terrace/models/model.h"

namespace terrace::generate {

struct LoadOptions {
  config::Precision precision = config::Precision::fp32;  // weights and activations
  at::Device device = at::kCPU;
  std::filesystem::path tokenizer;  // empty: the one in the checkpoint
};

struct Loaded {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  config::Config config;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<const data::Tokenizer> tokenizer;
};

// `path` is a checkpoint's folder, or a run's folder, whose newest complete checkpoint is then taken. Reads no
// optimizer states. Throws UserError if there is no checkpoint, if it is damaged, or if its tokenizer is missing or
// does not fit.
Loaded load(const std::filesystem::path& path, const LoadOptions& options);

}  // namespace terrace::generate
