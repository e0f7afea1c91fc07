// Logs digests of the inputs and outputs of each segment.
#include "terrace/verify/digest_log.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "terrace/parallel/stage.h"

namespace terrace::verify {

uint64_t digest_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().cpu().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(flat.const_data_ptr());
  const size_t size = flat.nbytes();
  uint64_t digest = size;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(word), size - at));
    // Multiplication by an odd number and rotation are both invertible, so a change of a single word changes the
    // digest.
    digest = std::rotl((digest ^ word) * 0x9E3779B97F4A7C15, 29);
  }
  return digest;
}

DigestLoggingModel::DigestLoggingModel(std::unique_ptr<models::Model> model, const schedule::Partition& partition)
    : ForwardingModel(std::move(model)), partition_(partition) {}

int64_t DigestLoggingModel::segment_with(int64_t unit) const {
  const auto found = std::ranges::find_if(
      partition_.segments, [unit](const schedule::Segment& segment) { return segment.units.contains(unit); });
  return found - partition_.segments.begin();
}

void DigestLoggingModel::begin_step(int64_t step) {
  step_ = step;
  passes_.assign(partition_.segments.size(), Passes{});
  losses_.clear();
}

void DigestLoggingModel::note(LoggedDigest::What what, int64_t micro_batch, int64_t segment, const at::Tensor& tensor,
                              std::string name) {
  log_.push_back({.step = step_,
                  .micro_batch = micro_batch,
                  .segment = segment,
                  .what = what,
                  .tensor = std::move(name),
                  .digest = digest_of(tensor)});
}

void DigestLoggingModel::note_weights(LoggedDigest::What what, int64_t micro_batch, int64_t segment) {
  for (const int64_t read : partition_.segment(segment).reads) {
    for (const nn::Parameter* parameter : parallel::segment_parameters(*this, partition_.segment(read))) {
      note(what, micro_batch, segment, parameter->value, parameter->name);
    }
  }
}

void DigestLoggingModel::note_buffers(int64_t micro_batch, int64_t segment) {
  for (const nn::Buffer* buffer : parallel::segment_buffers(*this, partition_.segment(segment))) {
    note(LoggedDigest::What::buffer, micro_batch, segment, buffer->value, buffer->name);
  }
}

void DigestLoggingModel::note_backward(const models::Tensors& input, int64_t micro_batch, int64_t segment) {
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& tensor : input) {
    if (!tensor.requires_grad()) continue;
    tensor.register_hook([this, micro_batch, segment](const at::Tensor& gradient) {
      note(LoggedDigest::What::input_gradient, micro_batch, segment, gradient);
    });
  }
}

models::Tensors DigestLoggingModel::forward(int64_t begin, int64_t end, const models::Tensors& input,
                                            const models::Batch& batch, const models::Pass& pass) {
  const int64_t segment = segment_with(begin);
  Passes& passes = passes_[static_cast<size_t>(segment)];
  // A segment that is recomputed runs first without autograd and later again with autograd.
  const bool with_graph = at::GradMode::is_enabled();
  const bool again = with_graph && passes.repeats < passes.without_graph;
  const int64_t micro_batch = again ? passes.repeats++ : passes.forwards++;
  if (!with_graph) ++passes.without_graph;
  note_weights(again ? LoggedDigest::What::weight_again : LoggedDigest::What::weight_forward, micro_batch, segment);
  if (!again) note_buffers(micro_batch, segment);
  note_backward(input, micro_batch, segment);
  models::Tensors output = ForwardingModel::forward(begin, end, input, batch, pass);
  for (const at::Tensor& tensor : output) {
    note(again ? LoggedDigest::What::output_again : LoggedDigest::What::output, micro_batch, segment, tensor);
  }
  // A segment's backward begins at its outputs, when the weights that it needs have been gathered.
  const auto first = std::ranges::find_if(output, [](const at::Tensor& tensor) { return tensor.requires_grad(); });
  if (!again && with_graph && first != output.end()) {
    first->register_hook([this, micro_batch, segment](const at::Tensor&) {
      note_weights(LoggedDigest::What::weight_backward, micro_batch, segment);
    });
  }
  return output;
}

models::Tensors DigestLoggingModel::loss(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                                         const models::Pass& pass) {
  const int64_t head = partition_.last();
  const auto micro_batch = static_cast<int64_t>(losses_.size());
  note_weights(LoggedDigest::What::weight_forward, micro_batch, head);
  note_buffers(micro_batch, head);
  note_backward(input, micro_batch, head);
  models::Tensors losses = ForwardingModel::loss(begin, input, batch, pass);
  double sum = 0;  // of the terms that are trained on
  const std::vector<models::LossTerm> terms = this->losses();
  for (size_t term = 0; term < terms.size(); ++term) {
    note(LoggedDigest::What::loss, micro_batch, head, losses[term]);
    if (terms[term].weight != 0) sum += losses[term].item<double>();
  }
  losses_.push_back(sum);
  return losses;
}

}  // namespace terrace::verify
