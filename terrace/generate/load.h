// Loads the model and the tokenizer of a checkpoint for generation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/models/model.h"
#include "terrace/parallel/tensor.h"

namespace terrace::generate {

struct LoadOptions {
  config::Precision precision = config::Precision::fp32;  // weights and activations
  at::Device device = at::kCPU;
  std::filesystem::path tokenizer;  // empty: the one in the checkpoint
  // The world whose ranks divide the model by tensor cuts, whatever the layout of the run, and then all make the same
  // calls of generate(). Null: one rank has the whole model.
  comm::World* world = nullptr;
};

struct Loaded {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  config::Config config;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<const data::Tokenizer> tokenizer;
  std::unique_ptr<const checkpoint::Reader> reader = nullptr;
  std::unique_ptr<parallel::TensorParallel> tensor = nullptr;  // null on one rank
};

// Everything but the weights. `path` is a checkpoint's folder, or a run's folder, whose newest complete checkpoint is
// then taken. Throws UserError if there is no checkpoint, if its family generates no text, if its tokenizer is
// missing or does not fit, or if the ranks of the world cannot divide the model. Ranks do not communicate here.
Loaded open(const std::filesystem::path& path, const LoadOptions& options);

// Reads this rank's part of the weights, and no optimizer states. Every rank of the world calls it with the options of
// open(). Throws UserError if the checkpoint is damaged.
void read_weights(Loaded& loaded, const LoadOptions& options);

// open() and read_weights().
Loaded load(const std::filesystem::path& path, const LoadOptions& options);

}  // namespace terrace::generate
