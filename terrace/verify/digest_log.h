// A model that logs digests of the weights, buffers, activations and gradients of each segment in the order of
// execution, so that two runs can be compared without keeping their activations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "terrace/models/forwarding_model.h"
#include "terrace/schedule/partition.h"

namespace terrace::verify {

struct LoggedDigest {
  // words_of() in first_divergence.cpp describes each value.
  enum class What { weight_forward, output, weight_again, output_again, loss, input_gradient, weight_backward, buffer };

  int64_t step = 0, micro_batch = 0, segment = 0;
  What what = What::output;
  std::string tensor = {};  // the name for weights and buffers, otherwise ""
  uint64_t digest = 0;

  bool same_place(const LoggedDigest& other) const {
    return step == other.step && micro_batch == other.micro_batch && segment == other.segment && what == other.what &&
           tensor == other.tensor;
  }
};

using DigestLog = std::vector<LoggedDigest>;

// A digest of the elements' bits, in order.
uint64_t digest_of(const at::Tensor& tensor);

class DigestLoggingModel : public models::ForwardingModel {
 public:
  DigestLoggingModel(std::unique_ptr<models::Model> model, const schedule::Partition& partition);

  void begin_step(int64_t step);
  const DigestLog& digest_log() const { return log_; }
  // The losses of this step's micro-batches so far.
  const std::vector<double>& micro_batch_losses() const { return losses_; }

  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override;
  models::Tensors loss(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                       const models::Pass& pass) override;

 private:
  // Numbers of passes through a segment in this step.
  struct Passes {
    int64_t forwards = 0, without_graph = 0, repeats = 0;
  };

  void note(LoggedDigest::What what, int64_t micro_batch, int64_t segment, const at::Tensor& tensor,
            std::string name = "");
  void note_weights(LoggedDigest::What what, int64_t micro_batch, int64_t segment);
  void note_buffers(int64_t micro_batch, int64_t segment);
  void note_backward(const models::Tensors& input, int64_t micro_batch, int64_t segment);

  int64_t segment_with(int64_t unit) const;

  schedule::Partition partition_;
  DigestLog log_;
  std::vector<double> losses_;
  int64_t step_ = 0;
  std::vector<Passes> passes_;
};

}  // namespace terrace::verify
