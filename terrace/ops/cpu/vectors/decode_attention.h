// Attention of one query of each head over cached keys. Every sum has a fixed order, so that a sequence has the same
// bits alone and beside others, with any number of threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "terrace/ops/cpu/decode_attention.h"
#include "terrace/ops/cpu/vectors/dot.h"
#include "terrace/ops/cpu/vectors/exponential.h"

namespace terrace::ops::cpu::TERRACE_VECTOR_SET {

// The heads that share the keys and values of one group of one sequence.
template <typename T>
struct QueryGroup {
  const T* queries;        // [heads, hd]
  int64_t heads, stride;   // elements between heads
  const T *keys, *values;  // [size, hd]
  int64_t size, head_dim;
  T* context;  // [heads, hd]
};

// scores [heads, padded]: the dot products of queries and keys.
template <typename T>
void score(const QueryGroup<T>& group, float* scores, int64_t padded) {
  for (int64_t first = 0; first < group.heads; first += dot_rows) {
    const int64_t rows = std::min(dot_rows, group.heads - first);
    const DotTile<T> tile = dot_tile_of<T>(rows);
    for (int64_t key = 0; key < group.size; key += dot_outputs) {
      tile(group.queries + first * group.stride, group.stride, group.keys + key * group.head_dim, group.head_dim,
           group.size - key, group.head_dim, true, scores + first * padded + key, padded);
    }
  }
}

// Replaces scores by their exponentials over the largest one, and returns one divided by their sum.
template <typename T>
TERRACE_VECTOR_CODE float exponentials(float* scores, int64_t size, float factor) {
  const OneVector scale = broadcast(factor);
  OneVector largest = broadcast(-INFINITY), sum = zeros();
  for (int64_t at = 0; at < size; at += lanes) {
    largest = larger_where(first_lanes(size - at), largest, load(scores + at, size - at));
  }
  const OneVector shift = broadcast(largest_of(largest)) * scale;
  for (int64_t at = 0; at < size; at += lanes) {
    const OneVector x = times_minus(load(scores + at, size - at), scale, shift);
    const OneVector power = where(first_lanes(size - at), power_of_two<T>(x));
    store(scores + at, power, size - at);
    sum = sum + power;
  }
  return 1.0F / sum_of(sum);
}

// context [hd] = scale * sum over keys of weights[key] * values[key], four vectors of columns at a time.
template <typename T>
TERRACE_VECTOR_CODE void add_values(const QueryGroup<T>& group, const float* weights, float scale, T* context) {
  constexpr int vectors = 4;
  for (int64_t first = 0; first < group.head_dim; first += vectors * lanes) {
    OneVector sums[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[v] = zeros();
    for (int64_t key = 0; key < group.size; ++key) {
      const OneVector weight = broadcast(weights[key]);
      const T* from = group.values + key * group.head_dim + first;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        sums[v] = times_plus(weight, load_wide(from + v * lanes, group.head_dim - first - v * lanes), sums[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      store_narrow(context + first + v * lanes, sums[v] * broadcast(scale), group.head_dim - first - v * lanes);
    }
  }
}

template <typename T>
void attend(const QueryGroup<T>& group, std::vector<float>& scores) {
  const int64_t padded = (group.size + dot_outputs - 1) / dot_outputs * dot_outputs;
  scores.resize(std::max(scores.size(), static_cast<size_t>(group.heads * padded)));
  score(group, scores.data(), padded);
  const float factor = 1.44269504088896341F / std::sqrt(static_cast<float>(group.head_dim));
  for (int64_t head = 0; head < group.heads; ++head) {
    float* own = scores.data() + head * padded;
    const float scale = exponentials<T>(own, group.size, factor);
    add_values(group, own, scale, group.context + head * group.head_dim);
  }
}

template <typename T>
void decode(const Heads& heads, const CachedKeys& cache, const at::Tensor& context) {
  const at::Tensor queries = heads.queries.stride(3) == 1 ? heads.queries : heads.queries.contiguous();
  const at::Tensor new_keys = heads.keys.contiguous(), new_values = heads.values.contiguous();  // [B, G, 1, hd]
  const int64_t batch = queries.size(0), groups = new_keys.size(1), head_dim = queries.size(3);
  const int64_t per_group = queries.size(1) / groups, capacity = cache.keys.size(2);
  const T *query = queries.const_data_ptr<T>(), *key = new_keys.const_data_ptr<T>(),
          *value = new_values.const_data_ptr<T>();
  T *keys = cache.keys.mutable_data_ptr<T>(), *values = cache.values.mutable_data_ptr<T>();
  T* out = context.mutable_data_ptr<T>();
  at::parallel_for(0, batch * groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t index = begin; index < end; ++index) {
      const int64_t b = index / groups, g = index % groups, size = cache.sizes[static_cast<size_t>(b)];
      const int64_t start = (cache.slots[static_cast<size_t>(b)] * groups + g) * capacity * head_dim;
      std::memcpy(keys + start + size * head_dim, key + index * head_dim, sizeof(T) * static_cast<size_t>(head_dim));
      std::memcpy(values + start + size * head_dim, value + index * head_dim,
                  sizeof(T) * static_cast<size_t>(head_dim));
      const int64_t first = cache.first_seen(size + 1);
      attend(QueryGroup<T>{.queries = query + b * queries.stride(0) + g * per_group * queries.stride(1),
                           .heads = per_group,
                           .stride = queries.stride(1),
                           .keys = keys + start + first * head_dim,
                           .values = values + start + first * head_dim,
                           .size = size + 1 - first,
                           .head_dim = head_dim,
                           .context = out + index * per_group * head_dim},
             scores);
    }
  });
}

}  // namespace terrace::ops::cpu::TERRACE_VECTOR_SET
