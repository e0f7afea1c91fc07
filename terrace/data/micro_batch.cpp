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

HostTensor cut_places(const HostTensor& whole, const ContextPlaces& places, int64_t rank) {
  TERRACE_CHECK(whole.sizes.size() >= 2 && whole.sizes[1] == places.length, "places of a sample of {}", places.length);
  HostTensor own{.type = whole.type, .sizes = whole.sizes, .bytes = {}};
  own.sizes[1] = places.own_length();
  const auto samples = static_cast<size_t>(whole.sizes[0]), of_sample = samples == 0 ? 0 : whole.bytes.size() / samples;
  const size_t of_place = of_sample / static_cast<size_t>(places.length);
  own.bytes.reserve(whole.bytes.size() / static_cast<size_t>(places.ranks));
  for (size_t sample = 0; sample < samples; ++sample) {
    for (const PlaceRange& range : places.ranges_of(rank)) {
      const std::byte* const begin =
          whole.bytes.data() + sample * of_sample + static_cast<size_t>(range.begin) * of_place;
      own.bytes.insert(own.bytes.end(), begin, begin + static_cast<size_t>(range.size) * of_place);
    }
  }
  return own;
}

}  // namespace terrace::data
