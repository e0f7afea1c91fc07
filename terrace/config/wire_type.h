// The types in which movements send values, and the bytes that they take.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"

namespace terrace::config {

// Whether values are sent as codes of one byte or half a byte, with an fp32 scale for each block of values.
constexpr bool is_quantized(WireType type) {
  return type == WireType::int8 || type == WireType::int4 || type == WireType::fp8;
}

// The values that share a scale; the last block may have fewer.
inline constexpr int64_t wire_block = 256;

// Bytes of `values` values that are kept in `element_bytes` bytes each, scales included.
constexpr int64_t wire_bytes(WireType type, int64_t values, int64_t element_bytes) {
  const int64_t scales = 4 * ((values + wire_block - 1) / wire_block);
  switch (type) {
    case WireType::same:
      return values * element_bytes;
    case WireType::fp32:
      return values * 4;
    case WireType::bf16:
      return values * 2;
    case WireType::int8:
    case WireType::fp8:
      return values + scales;
    case WireType::int4:
      return (values + 1) / 2 + scales;
  }
  return 0;
}

// Whether any movement of the layout quantizes.
constexpr bool quantizes(const LayoutConfig& layout) {
  return is_quantized(layout.gather_type) || is_quantized(layout.reduce_type) || is_quantized(layout.update_type) ||
         is_quantized(layout.outer_type);
}

// The type that calls inside one node send instead of `type`.
constexpr WireType inside_node(const LayoutConfig& layout, WireType type) {
  if (!is_quantized(type)) return type;
  switch (layout.node_type) {
    case NodeType::as_others:
      return type;
    case NodeType::same:
      return WireType::same;
    case NodeType::fp32:
      return WireType::fp32;
    case NodeType::bf16:
      return WireType::bf16;
  }
  return type;
}

// Whether values kept in `kept` are sent as elements of another type, so that ranks convert them before and after.
constexpr bool is_converted(WireType type, Precision kept) {
  return (type == WireType::fp32 && kept != Precision::fp32) || (type == WireType::bf16 && kept != Precision::bf16);
}

// Whether values kept in `element_bytes` bytes may be rounded on the way.
constexpr bool rounds(WireType type, int64_t element_bytes) {
  return is_quantized(type) || (type == WireType::bf16 && element_bytes > 2);
}

}  // namespace terrace::config
