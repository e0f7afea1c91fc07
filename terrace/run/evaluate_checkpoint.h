// Evaluates the weights of a checkpoint on held-out data, without a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/config/config.h"
#include "terrace/data/data_of_family.h"
#include "terrace/train/trainer.h"

namespace terrace::run {

struct EvaluationRequest {
  std::filesystem::path checkpoint;  // a checkpoint's folder, or a run's folder for its newest complete checkpoint
  std::vector<std::string> datasets = {};  // none: the samples that the run itself holds out
  int64_t ranks = 1;                       // as threads of this process
  comm::World* world = nullptr;            // or the world that a launcher made, of which this process is one rank
  int64_t threads = 0;                     // of each rank; 0: the cores, divided among the ranks
  std::string device = "auto";
  // All that is held out counts, also what training leaves out of its samples; and how far samples are apart.
  data::DataOfFamily::HeldOutChoice held_out = {};
};

struct CheckpointEvaluation {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  config::Config config;  // of the evaluation
  train::Evaluation evaluation;
  std::vector<observe::Figure> figures = {};  // the figures whose values the evaluation has
  // The bytes of text of each dataset; none where they are not known for all.
  std::vector<uint64_t> bytes = {};

  uint64_t all_bytes() const;
  // The loss over all of so many bytes in bits: of a model of text, whatever its tokenizer.
  static double bits_per_byte(const train::HeldOutFigures& figures, uint64_t bytes);
};

// The loss over all held-out samples, those that training evaluates unless the request chooses others, with the
// micro-batch, the precision and the kernels of the run. If the layout of the run fits the ranks they divide the model
// in the same way, otherwise each rank has the whole model. So on as many ranks and threads as the run had, the loss
// has the bits of the run's own evaluation of all these samples. Takes as much memory as the weights and optimizer
// states of a run. Shows its progress on the first rank. Nothing is returned if a stop was requested meanwhile. Throws
// UserError with every problem of checkpoint and files; with a launcher, all ranks throw a Refusal.
std::optional<CheckpointEvaluation> evaluate_checkpoint(const EvaluationRequest& request);

}  // namespace terrace::run
