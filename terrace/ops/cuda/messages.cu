// Sums and products of messages: one thread for each atom, or pair, and column, in the order of the CPU kernels.
#include "terrace/ops/cuda/gpu_kernels.h"
#include "terrace/ops/cuda/launch.cuh"

namespace terrace::ops::cuda {
namespace {

constexpr int64_t message_threads = 128;
constexpr int64_t axes = 3;

__device__ int64_t edge_at(const ListedEdges& edges, int64_t place) {
  return edges.order == nullptr ? place : edges.order[place];
}
__device__ int64_t pair_of(const ListedEdges& edges, int64_t edge) {
  return edges.pairs == nullptr ? edge : edges.pairs[edge];
}
template <typename A>
__device__ A sign_of(const ListedEdges& edges, int64_t edge) {
  return static_cast<A>(edges.opposite != nullptr && edges.opposite[edge] != 0 ? -edges.sign : edges.sign);
}
__device__ int64_t edge_of_pair(const EndsOfPairs& ends, int64_t pair) {
  return ends.first_edges == nullptr ? pair : ends.first_edges[pair];
}

// A thread for each of the numbers of an atom.
template <typename T>
__global__ void sum_messages(ListedEdges edges, const T* x, const T* w, T* sums) {
  const int64_t row = edges.planes * edges.columns;
  const int64_t atom = blockIdx.x, place_in_row = blockIdx.y * message_threads + threadIdx.x;
  if (place_in_row >= row) return;
  const int64_t column = place_in_row % edges.columns, end = edges.first[atom + 1];
  Wide<T> sum = 0;
  for (int64_t place = edges.first[atom]; place < end; ++place) {
    const int64_t edge = edge_at(edges, place);
    sum += Wide<T>(widen(x[edges.others[edge] * row + place_in_row])) *
           Wide<T>(widen(w[pair_of(edges, edge) * edges.columns + column]));
  }
  sums[atom * row + place_in_row] = narrow<T>(sum);
}

template <typename T>
__global__ void sum_directed(ListedEdges edges, const T* x, const T* w, const T* u, T* sums) {
  using A = Wide<T>;
  const int64_t atom = blockIdx.x, column = blockIdx.y * message_threads + threadIdx.x;
  if (column >= edges.columns) return;
  A sum[axes] = {};
  const int64_t end = edges.first[atom + 1];
  for (int64_t place = edges.first[atom]; place < end; ++place) {
    const int64_t edge = edge_at(edges, place), pair = pair_of(edges, edge);
    const A message =
        A(widen(x[edges.others[edge] * edges.columns + column])) * A(widen(w[pair * edges.columns + column]));
    const A sign = sign_of<A>(edges, edge);
    for (int64_t axis = 0; axis < axes; ++axis) sum[axis] += sign * A(widen(u[axes * pair + axis])) * message;
  }
  for (int64_t axis = 0; axis < axes; ++axis) {
    sums[(atom * axes + axis) * edges.columns + column] = narrow<T>(sum[axis]);
  }
}

template <typename T>
__global__ void sum_dots(ListedEdges edges, const T* v, const T* w, const T* u, T* sums) {
  using A = Wide<T>;
  const int64_t atom = blockIdx.x, column = blockIdx.y * message_threads + threadIdx.x;
  if (column >= edges.columns) return;
  A sum = 0;
  const int64_t end = edges.first[atom + 1];
  for (int64_t place = edges.first[atom]; place < end; ++place) {
    const int64_t edge = edge_at(edges, place), pair = pair_of(edges, edge);
    const T* from = v + edges.others[edge] * axes * edges.columns + column;
    const A sign = sign_of<A>(edges, edge);
    A dot = sign * A(widen(u[axes * pair])) * A(widen(from[0]));
    dot += sign * A(widen(u[axes * pair + 1])) * A(widen(from[edges.columns]));
    dot += sign * A(widen(u[axes * pair + 2])) * A(widen(from[2 * edges.columns]));
    sum += dot * A(widen(w[pair * edges.columns + column]));
  }
  sums[atom * edges.columns + column] = narrow<T>(sum);
}

template <typename T>
__global__ void multiply_messages(EndsOfPairs ends, const T* a, const T* b, T* products) {
  using A = Wide<T>;
  const int64_t pair = blockIdx.x, column = blockIdx.y * message_threads + threadIdx.x;
  if (column >= ends.columns) return;
  const int64_t edge = edge_of_pair(ends, pair), row = ends.planes * ends.columns;
  const int64_t receiver = ends.receivers[edge] * row + column, sender = ends.senders[edge] * row + column;
  A sum = 0;
  for (int64_t offset = 0; offset < row; offset += ends.columns) {
    sum += A(widen(a[receiver + offset])) * A(widen(b[sender + offset]));
    if (ends.mutual) sum += A(widen(a[sender + offset])) * A(widen(b[receiver + offset]));
  }
  products[pair * ends.columns + column] = narrow<T>(sum);
}

template <typename T>
__global__ void multiply_directed(EndsOfPairs ends, const T* v, const T* x, const T* u, T* products) {
  using A = Wide<T>;
  const int64_t pair = blockIdx.x, column = blockIdx.y * message_threads + threadIdx.x;
  if (column >= ends.columns) return;
  const int64_t edge = edge_of_pair(ends, pair), receiver = ends.receivers[edge], sender = ends.senders[edge];
  A there = 0, back = 0;
  for (int64_t axis = 0; axis < axes; ++axis) {
    const A along = A(widen(u[axes * pair + axis]));
    there += along * A(widen(v[(receiver * axes + axis) * ends.columns + column]));
    if (ends.mutual) back += along * A(widen(v[(sender * axes + axis) * ends.columns + column]));
  }
  A product = there * A(widen(x[sender * ends.columns + column]));
  if (ends.mutual) product -= back * A(widen(x[receiver * ends.columns + column]));
  products[pair * ends.columns + column] = narrow<T>(product);
}

// A block for each pair and axis.
template <typename T>
__global__ void multiply_directions(EndsOfPairs ends, const T* v, const T* x, const T* w, T* products) {
  using A = Wide<T>;
  const int64_t pair = blockIdx.x, axis = blockIdx.y;
  const int64_t edge = edge_of_pair(ends, pair), receiver = ends.receivers[edge], sender = ends.senders[edge];
  A sum = 0;
  for (int64_t i = threadIdx.x; i < ends.columns; i += message_threads) {
    A product = A(widen(v[(receiver * axes + axis) * ends.columns + i])) * A(widen(x[sender * ends.columns + i]));
    if (ends.mutual) {
      product -= A(widen(v[(sender * axes + axis) * ends.columns + i])) * A(widen(x[receiver * ends.columns + i]));
    }
    sum += A(widen(w[pair * ends.columns + i])) * product;
  }
  const A all = block_sum<message_threads>(sum);
  if (threadIdx.x == 0) products[axes * pair + axis] = narrow<T>(all);
}

dim3 blocks_for(int64_t rows, int64_t columns) {
  return dim3(static_cast<unsigned>(rows), pieces(columns, message_threads));
}

}  // namespace

void launch_message_sum(const ListedEdges& edges, GpuArray x, GpuArray w, GpuArray sums, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    launch(sum_messages<T>, blocks_for(edges.atoms, edges.planes * edges.columns), message_threads, stream, edges,
           elements<const T>(x), elements<const T>(w), elements<T>(sums));
  });
}

void launch_directed_sum(const ListedEdges& edges, GpuArray x, GpuArray w, GpuArray u, GpuArray sums, void* stream) {
  for_gpu_type(x.type, [&]<typename T>(T) {
    launch(sum_directed<T>, blocks_for(edges.atoms, edges.columns), message_threads, stream, edges,
           elements<const T>(x), elements<const T>(w), elements<const T>(u), elements<T>(sums));
  });
}

void launch_directed_dot(const ListedEdges& edges, GpuArray v, GpuArray w, GpuArray u, GpuArray sums, void* stream) {
  for_gpu_type(v.type, [&]<typename T>(T) {
    launch(sum_dots<T>, blocks_for(edges.atoms, edges.columns), message_threads, stream, edges, elements<const T>(v),
           elements<const T>(w), elements<const T>(u), elements<T>(sums));
  });
}

void launch_message_product(const EndsOfPairs& ends, GpuArray a, GpuArray b, GpuArray products, void* stream) {
  for_gpu_type(a.type, [&]<typename T>(T) {
    launch(multiply_messages<T>, blocks_for(ends.pairs, ends.columns), message_threads, stream, ends,
           elements<const T>(a), elements<const T>(b), elements<T>(products));
  });
}

void launch_directed_product(const EndsOfPairs& ends, GpuArray v, GpuArray x, GpuArray u, GpuArray products,
                             void* stream) {
  for_gpu_type(v.type, [&]<typename T>(T) {
    launch(multiply_directed<T>, blocks_for(ends.pairs, ends.columns), message_threads, stream, ends,
           elements<const T>(v), elements<const T>(x), elements<const T>(u), elements<T>(products));
  });
}

void launch_direction_product(const EndsOfPairs& ends, GpuArray v, GpuArray x, GpuArray w, GpuArray products,
                              void* stream) {
  for_gpu_type(v.type, [&]<typename T>(T) {
    launch(multiply_directions<T>, dim3(static_cast<unsigned>(ends.pairs), axes), message_threads, stream, ends,
           elements<const T>(v), elements<const T>(x), elements<const T>(w), elements<T>(products));
  });
}

}  // namespace terrace::ops::cuda
