// Copies values into host tensors.
#include "terrace/data/micro_batch.h"

#include <utility>

#include "terrace/base/error.h"

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

}  // namespace terrace::data
