// Takes the digests and sorts them, since schedules compute in different orders.
#include "terrace/train/first_digests.h"

#include <fmt/format.h>

#include <iterator>

#include "terrace/optim/digest.h"

namespace terrace::train {
namespace {

constexpr int64_t kinds = 4;  // forward, loss, backward, gradients

}  // namespace

void FirstDigests::note(Key key, const models::Tensors& tensors) {
  uint64_t& digest = digests_[key];
  for (const at::Tensor& tensor : tensors) {
    digest = optim::followed_by(digest, optim::digest_of(tensor.detach().contiguous()));
  }
}

void FirstDigests::note_gradients(int64_t segment, const std::vector<nn::Parameter*>& parameters) {
  models::Tensors gradients;
  for (const nn::Parameter* parameter : parameters) gradients.push_back(parameter->gradient);
  note({2 * last_ - segment, 3}, gradients);
}

std::vector<uint64_t> FirstDigests::values() const {
  std::vector<uint64_t> values;
  for (const auto& [key, digest] : digests_) values.push_back(digest);
  return values;
}

FirstDigests::Key FirstDigests::key_of(size_t value) const {
  return std::next(digests_.begin(), static_cast<std::ptrdiff_t>(value))->first;
}

int64_t FirstDigests::position_of(size_t value) const {
  const auto& [place, kind] = key_of(value);
  return place * kinds + kind;
}

std::string FirstDigests::text_of(size_t value) const {
  const auto& [place, kind] = key_of(value);
  switch (kind) {
    case 0:
      return fmt::format("the forward of segment {}", place);
    case 1:
      return "the loss";
    case 2:
      return fmt::format("the backward of segment {}", 2 * last_ - place);
    default:
      return fmt::format("the weight gradients of segment {}", 2 * last_ - place);
  }
}

}  // namespace terrace::train
