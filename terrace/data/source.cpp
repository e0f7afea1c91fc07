// Copies values into host tensors, and divides held-out samples in equal shares.
#include "terrace/data/source.h"

#include <fmt/format.h>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

template <typename Value>
HostTensor copied(HostTensor::Type type, std::span<const Value> values, std::vector<int64_t> sizes) {
  const auto bytes = std::as_bytes(values);
  HostTensor tensor{.type = type, .sizes = std::move(sizes), .bytes = {bytes.begin(), bytes.end()}};
  TERRACE_CHECK(tensor.elements() == values.size(), "{} values for a tensor of {} elements", values.size(),
                tensor.elements());
  return tensor;
}

}  // namespace

size_t HostTensor::elements() const {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}

HostTensor HostTensor::of(std::span<const uint8_t> values, std::vector<int64_t> sizes) {
  return copied(Type::uint8, values, std::move(sizes));
}

HostTensor HostTensor::of(std::span<const int32_t> values, std::vector<int64_t> sizes) {
  return copied(Type::int32, values, std::move(sizes));
}

HostTensor HostTensor::of(std::span<const int64_t> values, std::vector<int64_t> sizes) {
  return copied(Type::int64, values, std::move(sizes));
}

HostTensor HostTensor::of(std::span<const double> values, std::vector<int64_t> sizes) {
  return copied(Type::fp64, values, std::move(sizes));
}

HostTensor HostTensor::of_bf16(std::span<const uint16_t> values, std::vector<int64_t> sizes) {
  return copied(Type::bf16, values, std::move(sizes));
}

HostTensor HostTensor::of(std::span<const float> values, std::vector<int64_t> sizes) {
  return copied(Type::fp32, values, std::move(sizes));
}

std::string Source::difference(const Json& older, const Json& own, int64_t /*steps_done*/) const {
  return older == own ? "" : fmt::format("they were {}, and are {}", older.dump(), own.dump());
}

int64_t Source::rounds(const HeldOut& held_out, const RoundShare& share) const {
  const auto samples = static_cast<int64_t>(held_out.samples.size());
  return (samples + share.micro_batch * share.ranks - 1) / (share.micro_batch * share.ranks);
}

}  // namespace terrace::data
