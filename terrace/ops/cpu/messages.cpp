// Sums and products of messages. Atoms, and pairs, are divided among threads.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>

#include "terrace/ops/cpu/kernels.h"
#include "terrace/ops/cpu/lane_vectors.h"
#include "terrace/ops/element_type.h"

namespace terrace::ops::cpu {
namespace {

constexpr int64_t message_grain = 16384;  // products that are worth a thread
constexpr int axes = 3;

const int64_t* numbers_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<int64_t>() : nullptr;
}

// MessageLists as plain pointers, null where a tensor is undefined.
struct ListedEdges {
  const int64_t *first, *order, *others, *pairs;
  const uint8_t* opposite;
  double sign;

  explicit ListedEdges(const MessageLists& lists)
      : first(numbers_of(lists.first)),
        order(numbers_of(lists.order)),
        others(numbers_of(lists.others)),
        pairs(numbers_of(lists.pairs)),
        opposite(lists.opposite.defined() ? lists.opposite.const_data_ptr<uint8_t>() : nullptr),
        sign(lists.sign) {}

  TERRACE_INLINE int64_t edge(int64_t place) const { return order == nullptr ? place : order[place]; }
  TERRACE_INLINE int64_t pair(int64_t edge) const { return pairs == nullptr ? edge : pairs[edge]; }
  TERRACE_INLINE double sign_of(int64_t edge) const {
    return opposite != nullptr && opposite[edge] != 0 ? -sign : sign;
  }
};

// Rows of R x D numbers for each atom and D for each pair.
struct MessageShape {
  int64_t planes, columns;
  int64_t row() const { return planes * columns; }
};

// The direction of a pair, times a sign.
template <typename T, typename A>
TERRACE_INLINE inline std::array<A, axes> direction_of(const T* u, int64_t pair, A sign) {
  return {sign * A(widen(u[axes * pair])), sign * A(widen(u[axes * pair + 1])), sign * A(widen(u[axes * pair + 2]))};
}

// Computes `planes` planes of an atom's sums, beginning with `first_plane`. They share what is read of w.
template <int planes, int bytes, typename T>
TERRACE_INLINE inline void sum_planes(int64_t atom, int64_t first_plane, T* sums, const T* x, const T* w,
                                      const ListedEdges& edges, const MessageShape& shape) {
  using Values = Lanes<Wide<T>, bytes>;
  for_groups<bytes / 16>(shape.columns, [&]<int vectors>(int64_t left, Vectors<vectors>, auto count) TERRACE_INLINE {
    const int64_t offset = first_plane * shape.columns + left;
    Values sum[planes][vectors];
    for (int64_t place = edges.first[atom]; place < edges.first[atom + 1]; ++place) {
      const int64_t edge = edges.edge(place);
      const T *from = x + edges.others[edge] * shape.row() + offset, *by = w + edges.pair(edge) * shape.columns + left;
      TERRACE_PIECE_LOOP
      for (int v = 0; v < vectors; ++v) {
        const Values factor = load_lanes<bytes>(by + v * num_lanes, count);
        TERRACE_PIECE_LOOP
        for (int plane = 0; plane < planes; ++plane) {
          const Values value = load_lanes<bytes>(from + plane * shape.columns + v * num_lanes, count);
          sum[plane][v] = sum[plane][v] + value * factor;
        }
      }
    }
    TERRACE_PIECE_LOOP
    for (int plane = 0; plane < planes; ++plane) {
      T* to = sums + atom * shape.row() + offset + plane * shape.columns;
      TERRACE_PIECE_LOOP
      for (int v = 0; v < vectors; ++v) store_lanes(to + v * num_lanes, sum[plane][v], count);
    }
  });
}

template <int bytes, typename T>
TERRACE_INLINE inline void sum_messages(T* sums, const T* x, const T* w, ListedEdges edges, MessageShape shape,
                                        int64_t begin, int64_t end) {
  for (int64_t atom = begin; atom < end; ++atom) {
    int64_t plane = 0;
    for (; plane + axes <= shape.planes; plane += axes) sum_planes<axes, bytes>(atom, plane, sums, x, w, edges, shape);
    for (; plane < shape.planes; ++plane) sum_planes<1, bytes>(atom, plane, sums, x, w, edges, shape);
  }
}

template <int bytes, typename T>
TERRACE_INLINE inline void sum_directed(T* sums, const T* x, const T* w, const T* u, ListedEdges edges, int64_t columns,
                                        int64_t begin, int64_t end) {
  using A = Wide<T>;
  using Values = Lanes<A, bytes>;
  for (int64_t atom = begin; atom < end; ++atom) {
    for_groups<bytes / 16>(columns, [&]<int vectors>(int64_t left, Vectors<vectors>, auto count) TERRACE_INLINE {
      Values sum[axes][vectors];
      for (int64_t place = edges.first[atom]; place < edges.first[atom + 1]; ++place) {
        const int64_t edge = edges.edge(place), pair = edges.pair(edge);
        const T *from = x + edges.others[edge] * columns + left, *by = w + pair * columns + left;
        const std::array<A, axes> along = direction_of(u, pair, static_cast<A>(edges.sign_of(edge)));
        TERRACE_PIECE_LOOP
        for (int v = 0; v < vectors; ++v) {
          const Values message =
              load_lanes<bytes>(from + v * num_lanes, count) * load_lanes<bytes>(by + v * num_lanes, count);
          TERRACE_PIECE_LOOP
          for (int axis = 0; axis < axes; ++axis) sum[axis][v] = sum[axis][v] + along[axis] * message;
        }
      }
      TERRACE_PIECE_LOOP
      for (int axis = 0; axis < axes; ++axis) {
        T* to = sums + (atom * axes + axis) * columns + left;
        TERRACE_PIECE_LOOP
        for (int v = 0; v < vectors; ++v) store_lanes(to + v * num_lanes, sum[axis][v], count);
      }
    });
  }
}

template <int bytes, typename T>
TERRACE_INLINE inline void sum_dots(T* sums, const T* v, const T* w, const T* u, ListedEdges edges, int64_t columns,
                                    int64_t begin, int64_t end) {
  using A = Wide<T>;
  using Values = Lanes<A, bytes>;
  for (int64_t atom = begin; atom < end; ++atom) {
    for_groups<bytes / 16>(columns, [&]<int vectors>(int64_t left, Vectors<vectors>, auto count) TERRACE_INLINE {
      Values sum[vectors];
      for (int64_t place = edges.first[atom]; place < edges.first[atom + 1]; ++place) {
        const int64_t edge = edges.edge(place), pair = edges.pair(edge);
        const T *from = v + edges.others[edge] * axes * columns + left, *by = w + pair * columns + left;
        const std::array<A, axes> along = direction_of(u, pair, static_cast<A>(edges.sign_of(edge)));
        TERRACE_PIECE_LOOP
        for (int i = 0; i < vectors; ++i) {
          const auto component = [&](int64_t axis) TERRACE_INLINE {
            return along[axis] * load_lanes<bytes>(from + axis * columns + i * num_lanes, count);
          };
          const Values dot = component(0) + component(1) + component(2);
          sum[i] = sum[i] + dot * load_lanes<bytes>(by + i * num_lanes, count);
        }
      }
      TERRACE_PIECE_LOOP
      for (int i = 0; i < vectors; ++i) store_lanes(sums + atom * columns + left + i * num_lanes, sum[i], count);
    });
  }
}

// PairEnds as plain pointers.
struct EndsOfPairs {
  const int64_t *receivers, *senders, *first_edges;
  bool mutual;

  explicit EndsOfPairs(const PairEnds& ends)
      : receivers(numbers_of(ends.receivers)),
        senders(numbers_of(ends.senders)),
        first_edges(numbers_of(ends.first_edges)),
        mutual(ends.mutual) {}

  TERRACE_INLINE int64_t edge(int64_t pair) const { return first_edges == nullptr ? pair : first_edges[pair]; }
};

// Computes the products of a pair whose atoms have `constant_planes` planes; 0 stands for a number for which the loop
// is not compiled.
template <int64_t constant_planes, typename T>
TERRACE_INLINE inline void multiply_planes(int64_t pair, T* products, const T* a, const T* b, const EndsOfPairs& ends,
                                           const MessageShape& shape) {
  using A = Wide<T>;
  const int64_t planes = constant_planes > 0 ? constant_planes : shape.planes, columns = shape.columns;
  const int64_t edge = ends.edge(pair), receiver = ends.receivers[edge], sender = ends.senders[edge];
  const T *a_receiver = a + receiver * shape.row(), *b_sender = b + sender * shape.row();
  const T *a_sender = a + sender * shape.row(), *b_receiver = b + receiver * shape.row();
  T* to = products + pair * columns;
  TERRACE_LANE_LOOP
  for (int64_t i = 0; i < columns; ++i) {
    A sum = 0;
    for (int64_t plane = 0; plane < planes; ++plane) {
      const int64_t at = plane * columns + i;
      sum += A(widen(a_receiver[at])) * A(widen(b_sender[at]));
      if (ends.mutual) sum += A(widen(a_sender[at])) * A(widen(b_receiver[at]));
    }
    to[i] = narrow<T>(sum);
  }
}

template <typename T>
TERRACE_VECTOR_CLONES void multiply_messages(T* products, const T* a, const T* b, EndsOfPairs ends, MessageShape shape,
                                             int64_t begin, int64_t end) {
  for (int64_t pair = begin; pair < end; ++pair) {
    if (shape.planes == 1)
      multiply_planes<1>(pair, products, a, b, ends, shape);
    else if (shape.planes == axes)
      multiply_planes<axes>(pair, products, a, b, ends, shape);
    else
      multiply_planes<0>(pair, products, a, b, ends, shape);
  }
}

template <typename T>
TERRACE_VECTOR_CLONES void multiply_directed(T* products, const T* v, const T* x, const T* u, EndsOfPairs ends,
                                             int64_t columns, int64_t begin, int64_t end) {
  using A = Wide<T>;
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t edge = ends.edge(pair), receiver = ends.receivers[edge], sender = ends.senders[edge];
    const A along[axes] = {A(widen(u[axes * pair])), A(widen(u[axes * pair + 1])), A(widen(u[axes * pair + 2]))};
    const T *v_receiver = v + receiver * axes * columns, *x_sender = x + sender * columns;
    const T *v_sender = v + sender * axes * columns, *x_receiver = x + receiver * columns;
    T* to = products + pair * columns;
    TERRACE_LANE_LOOP
    for (int64_t i = 0; i < columns; ++i) {
      const A dot = along[0] * A(widen(v_receiver[i])) + along[1] * A(widen(v_receiver[columns + i])) +
                    along[2] * A(widen(v_receiver[2 * columns + i]));
      A product = dot * A(widen(x_sender[i]));
      if (ends.mutual) {
        const A back = along[0] * A(widen(v_sender[i])) + along[1] * A(widen(v_sender[columns + i])) +
                       along[2] * A(widen(v_sender[2 * columns + i]));
        product -= back * A(widen(x_receiver[i]));
      }
      to[i] = narrow<T>(product);
    }
  }
}

template <typename T>
TERRACE_VECTOR_CLONES void multiply_directions(T* products, const T* v, const T* x, const T* w, EndsOfPairs ends,
                                               int64_t columns, int64_t begin, int64_t end) {
  using A = Wide<T>;
  constexpr int64_t lanes = 16;
  for (int64_t pair = begin; pair < end; ++pair) {
    const int64_t edge = ends.edge(pair), receiver = ends.receivers[edge], sender = ends.senders[edge];
    const T *v_receiver = v + receiver * axes * columns, *x_sender = x + sender * columns;
    const T *v_sender = v + sender * axes * columns, *x_receiver = x + receiver * columns;
    const T* by = w + pair * columns;
    A sum[axes][lanes] = {};
    for (int64_t left = 0; left < columns; left += lanes) {
      const int64_t width = std::min(lanes, columns - left);
      TERRACE_LANE_LOOP
      for (int64_t lane = 0; lane < width; ++lane) {
        const int64_t i = left + lane;
        const A forth = A(widen(by[i])) * A(widen(x_sender[i]));
        const A back = ends.mutual ? A(widen(by[i])) * A(widen(x_receiver[i])) : A(0);
        for (int64_t axis = 0; axis < axes; ++axis) {
          sum[axis][lane] += A(widen(v_receiver[axis * columns + i])) * forth;
          if (ends.mutual) sum[axis][lane] -= A(widen(v_sender[axis * columns + i])) * back;
        }
      }
    }
    for (int64_t axis = 0; axis < axes; ++axis) {
      A all = 0;
      for (int64_t lane = 0; lane < lanes; ++lane) all += sum[axis][lane];
      products[axes * pair + axis] = narrow<T>(all);
    }
  }
}

template <typename Body>
void over_message_rows(int64_t rows, int64_t products, const Body& body) {
  const int64_t of_row = std::max<int64_t>(1, products / std::max<int64_t>(rows, 1));
  at::parallel_for(0, rows, std::max<int64_t>(1, message_grain / of_row), body);
}

MessageShape shape_of(const at::Tensor& x) { return {.planes = x.size(1), .columns = x.size(2)}; }

}  // namespace

void message_sum(const at::Tensor& x, const at::Tensor& w, const MessageLists& lists, const at::Tensor& sums) {
  const MessageShape shape = shape_of(x);
  for_type(x.scalar_type(), [&]<typename T>(T) {
    over_message_rows(x.size(0), lists.others.numel() * shape.row(), [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        sum_messages<bytes>(sums.mutable_data_ptr<T>(), x.const_data_ptr<T>(), w.const_data_ptr<T>(),
                            ListedEdges(lists), shape, begin, end);
      });
    });
  });
}

void directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums) {
  const int64_t columns = w.size(1);
  for_type(x.scalar_type(), [&]<typename T>(T) {
    over_message_rows(x.size(0), lists.others.numel() * axes * columns, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        sum_directed<bytes>(sums.mutable_data_ptr<T>(), x.const_data_ptr<T>(), w.const_data_ptr<T>(),
                            u.const_data_ptr<T>(), ListedEdges(lists), columns, begin, end);
      });
    });
  });
}

void directed_dot(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums) {
  const int64_t columns = w.size(1);
  for_type(v.scalar_type(), [&]<typename T>(T) {
    over_message_rows(v.size(0), lists.others.numel() * axes * columns, [&](int64_t begin, int64_t end) {
      with_widest_registers([&]<int bytes>(RegisterBytes<bytes>) TERRACE_INLINE {
        sum_dots<bytes>(sums.mutable_data_ptr<T>(), v.const_data_ptr<T>(), w.const_data_ptr<T>(), u.const_data_ptr<T>(),
                        ListedEdges(lists), columns, begin, end);
      });
    });
  });
}

void message_product(const at::Tensor& a, const at::Tensor& b, const PairEnds& ends, const at::Tensor& products) {
  const MessageShape shape = shape_of(a);
  for_type(a.scalar_type(), [&]<typename T>(T) {
    over_message_rows(products.size(0), products.size(0) * shape.row(), [&](int64_t begin, int64_t end) {
      multiply_messages(products.mutable_data_ptr<T>(), a.const_data_ptr<T>(), b.const_data_ptr<T>(), EndsOfPairs(ends),
                        shape, begin, end);
    });
  });
}

void directed_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const PairEnds& ends,
                      const at::Tensor& products) {
  const int64_t columns = products.size(1);
  for_type(v.scalar_type(), [&]<typename T>(T) {
    over_message_rows(products.size(0), products.numel() * axes, [&](int64_t begin, int64_t end) {
      multiply_directed(products.mutable_data_ptr<T>(), v.const_data_ptr<T>(), x.const_data_ptr<T>(),
                        u.const_data_ptr<T>(), EndsOfPairs(ends), columns, begin, end);
    });
  });
}

void direction_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const PairEnds& ends,
                       const at::Tensor& products) {
  const int64_t columns = w.size(1);
  for_type(v.scalar_type(), [&]<typename T>(T) {
    over_message_rows(products.size(0), products.size(0) * axes * columns, [&](int64_t begin, int64_t end) {
      multiply_directions(products.mutable_data_ptr<T>(), v.const_data_ptr<T>(), x.const_data_ptr<T>(),
                          w.const_data_ptr<T>(), EndsOfPairs(ends), columns, begin, end);
    });
  });
}

}  // namespace terrace::ops::cpu
