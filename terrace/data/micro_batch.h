// Defines a micro-batch: the tensors of some samples in the memory of the host, their counts and sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/context_places.h"
#include "terrace/base/text/sizes.h"

namespace terrace::data {

// A tensor in the memory of the host, row-major.
struct HostTensor {
  enum class Type { uint8, int32, int64, bf16, fp32, fp64 };
  Type type = Type::fp32;
  std::vector<int64_t> sizes = {};
  std::vector<std::byte> bytes = {};

  size_t elements() const;  // the number of elements by the sizes

  static HostTensor of(std::span<const uint8_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const int32_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const int64_t> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const float> values, std::vector<int64_t> sizes);
  static HostTensor of(std::span<const double> values, std::vector<int64_t> sizes);
  // Makes a tensor of bf16 numbers, which are the upper halves of fp32 numbers.
  static HostTensor of_bf16(std::span<const uint16_t> values, std::vector<int64_t> sizes);
};

// A tensor [B, length, ..] with the places of one rank alone, in the order of ContextPlaces::ranges_of().
HostTensor cut_places(const HostTensor& whole, const ContextPlaces& places, int64_t rank);

using TensorNames = std::set<std::string, std::less<>>;

// The tensors may have other sizes in every micro-batch; a size may be 0.
struct MicroBatch {
  std::vector<int64_t> samples = {};  // the number of each sample in the run
  std::map<std::string, HostTensor, std::less<>> tensors = {};
  // The number of things in this micro-batch over which each loss of the model is summed, such as tokens, or the sum of
  // their weights.
  std::vector<double> counts = {};
  // The sizes of the micro-batch, such as atoms and edges: all that config::Settings::sizes names, also where no tensor
  // is loaded.
  Sizes sizes = {};
  // The positions of each context rank, where they are others than those of the layout, as those that documents
  // balance.
  ContextPlaces places = {};
};

}  // namespace terrace::data
