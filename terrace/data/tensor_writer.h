// Writes the numbers of a tensor in fp32 one after another, each once, into the memory of the tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "terrace/data/micro_batch.h"

namespace terrace::data {

class TensorWriter {
 public:
  explicit TensorWriter(std::vector<int64_t> sizes);

  // Returns the place of the next numbers, which the caller writes.
  std::span<float> next(size_t count);
  void add(float number) { next(1).front() = number; }
  void add(std::span<const float> numbers);

  // Returns the places of all numbers that are still to come.
  std::span<float> rest() const { return rest_; }

  // Returns the tensor, all of whose numbers must be there.
  HostTensor finish();

 private:
  HostTensor tensor_;
  std::span<float> rest_;
};

}  // namespace terrace::data
