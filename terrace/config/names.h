// Defines the words for the enumerators in the file and in printed text.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "terrace/config/config.h"

namespace terrace::config {

// One word per enumerator, in the order of the enumeration.
template <typename Enum>
struct Names;

template <>
struct Names<Precision> {
  static constexpr std::array<std::string_view, 3> words = {"fp32", "bf16", "fp16"};
};
template <>
struct Names<Recompute> {
  static constexpr std::array<std::string_view, 3> words = {"none", "selective", "full"};
};
template <>
struct Names<Decay> {
  static constexpr std::array<std::string_view, 4> words = {"cosine", "linear", "constant", "wsd"};
};
template <>
struct Names<OnNan> {
  static constexpr std::array<std::string_view, 2> words = {"stop", "skip"};
};
template <>
struct Names<OnCorruption> {
  static constexpr std::array<std::string_view, 2> words = {"stop", "reload"};
};
template <>
struct Names<OnSpike> {
  static constexpr std::array<std::string_view, 4> words = {"ignore", "warn", "skip", "back"};
};

template <>
struct Names<Sharding> {
  static constexpr std::array<std::string_view, 7> words = {"ddp",    "zero1", "zero2",      "zero3",
                                                            "hybrid", "node",  "three_level"};
};
template <>
struct Names<Routing> {
  static constexpr std::array<std::string_view, 3> words = {"auto", "flat", "rails"};
};
template <>
struct Names<ContextRoute> {
  static constexpr std::array<std::string_view, 4> words = {"auto", "ring", "gather", "heads"};
};
template <>
struct Names<RailsGather> {
  static constexpr std::array<std::string_view, 3> words = {"auto", "library", "doubling"};
};
template <>
struct Names<WireType> {
  static constexpr std::array<std::string_view, 6> words = {"same", "fp32", "bf16", "int8", "int4", "fp8"};
};
template <>
struct Names<NodeType> {
  static constexpr std::array<std::string_view, 4> words = {"as others", "same", "fp32", "bf16"};
};
template <>
struct Names<ShardGroup::Word> {
  static constexpr std::array<std::string_view, 5> words = {"as sharding", "none", "pair", "node", "all"};
};
template <>
struct Names<RecomputeLayers::Word> {
  static constexpr std::array<std::string_view, 2> words = {"all", "fit"};
};

template <>
struct Names<PipelineSchedule> {
  static constexpr std::array<std::string_view, 5> words = {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"};
};

template <typename Enum>
constexpr std::string_view name_of(Enum value) {
  return Names<Enum>::words[static_cast<size_t>(value)];
}

}  // namespace terrace::config
