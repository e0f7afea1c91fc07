// Gives the places of a tensor's numbers in their order.
#include "terrace/data/tensor_writer.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {

TensorWriter::TensorWriter(std::vector<int64_t> sizes)
    : tensor_{.type = HostTensor::Type::fp32, .sizes = std::move(sizes)} {
  tensor_.bytes.resize(tensor_.elements() * sizeof(float));
  rest_ = {reinterpret_cast<float*>(tensor_.bytes.data()), tensor_.elements()};
}

std::span<float> TensorWriter::next(size_t count) {
  TERRACE_CHECK(count <= rest_.size(), "{} numbers where {} are left of a tensor", count, rest_.size());
  const std::span<float> place = rest_.first(count);
  rest_ = rest_.subspan(count);
  return place;
}

void TensorWriter::add(std::span<const float> numbers) { std::ranges::copy(numbers, next(numbers.size()).begin()); }

HostTensor TensorWriter::finish() {
  TERRACE_CHECK(rest_.empty(), "{} numbers of a tensor were not written", rest_.size());
  return std::move(tensor_);
}

}  // namespace terrace::data
