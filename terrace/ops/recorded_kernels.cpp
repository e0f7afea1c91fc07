// Makes one wrapper for each kernel from the kernel's signature.
#include "terrace/ops/recorded_kernels.h"

#include <algorithm>
#include <array>

#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

// A string as a template argument.
template <size_t length>
struct Name {
  constexpr Name(const char (&text)[length]) { std::copy_n(text, length, characters.begin()); }
  std::array<char, length> characters{};
};

double bytes_of_argument(const at::Tensor& tensor) { return profile::bytes_of({tensor}); }
double bytes_of_argument(const NormForward& t) {
  return profile::bytes_of(
      {t.x, t.added, t.weight, t.bias, t.added.defined() ? t.sum : at::Tensor(), t.y, t.mean, t.inverse});
}
double bytes_of_argument(const NormBackward& t) {
  return profile::bytes_of({t.dy, t.d_sum, t.x, t.weight, t.mean, t.inverse, t.dx, t.weight_sums, t.bias_sums});
}
template <typename Other>
double bytes_of_argument(const Other&) {
  return 0;
}

// The wrapped tables. A wrapper is a plain function without state, so it finds its device's table by a template
// argument.
template <int device>
const Kernels* wrapped = nullptr;

// `first_passes`: how often the kernel passes over its first argument; 2 if the argument is read and written.
template <int device, auto member, Name name, int first_passes>
struct Recorded;

template <int device, typename... Arguments, void (*Kernels::*member)(Arguments...), Name name, int first_passes>
struct Recorded<device, member, name, first_passes> {
  static void call(Arguments... arguments) {
    const profile::OperationRecord record(name.characters.data(), [&] {
      const std::array<double, sizeof...(Arguments)> each = {bytes_of_argument(arguments)...};
      profile::OperationCost cost;
      for (const double bytes : each) cost.bytes += bytes;
      cost.bytes += (first_passes - 1) * each.front();
      return cost;
    });
    (wrapped<device>->*member)(arguments...);
  }
};

// Only the rows of the table that the indices name count.
template <int device>
void add_rows(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from) {
  const profile::OperationRecord record("terrace::add_rows", [&] {
    const double touched = static_cast<double>(from.numel()) * static_cast<double>(into.element_size());
    return profile::OperationCost{.bytes = profile::bytes_of({indices, from}) + 2 * touched};
  });
  wrapped<device>->add_rows(into, indices, from);
}

template <int device>
Kernels recorded(const Kernels& kernels) {
  wrapped<device> = &kernels;
  Kernels table = kernels;
  table.add = Recorded<device, &Kernels::add, "terrace::add", 2>::call;
  table.add_column_sums = Recorded<device, &Kernels::add_column_sums, "terrace::add_column_sums", 2>::call;
  table.add_rows = add_rows<device>;
  table.sum_segments = Recorded<device, &Kernels::sum_segments, "terrace::sum_segments", 1>::call;
  table.extremes_of_segments =
      Recorded<device, &Kernels::extremes_of_segments, "terrace::extremes_of_segments", 1>::call;
  table.message_sum = Recorded<device, &Kernels::message_sum, "terrace::message_sum", 1>::call;
  table.message_product = Recorded<device, &Kernels::message_product, "terrace::message_product", 1>::call;
  table.directed_sum = Recorded<device, &Kernels::directed_sum, "terrace::directed_sum", 1>::call;
  table.directed_dot = Recorded<device, &Kernels::directed_dot, "terrace::directed_dot", 1>::call;
  table.directed_product = Recorded<device, &Kernels::directed_product, "terrace::directed_product", 1>::call;
  table.direction_product = Recorded<device, &Kernels::direction_product, "terrace::direction_product", 1>::call;
  table.norm = Recorded<device, &Kernels::norm, "terrace::norm", 1>::call;
  table.norm_backward = Recorded<device, &Kernels::norm_backward, "terrace::norm_backward", 1>::call;
  table.swiglu = Recorded<device, &Kernels::swiglu, "terrace::swiglu", 1>::call;
  table.swiglu_backward = Recorded<device, &Kernels::swiglu_backward, "terrace::swiglu_backward", 1>::call;
  table.softplus = Recorded<device, &Kernels::softplus, "terrace::softplus", 1>::call;
  table.copy_heads = Recorded<device, &Kernels::copy_heads, "terrace::copy_heads", 1>::call;
  table.rotate = Recorded<device, &Kernels::rotate, "terrace::rotate", 1>::call;
  table.dropout = Recorded<device, &Kernels::dropout, "terrace::dropout", 1>::call;
  table.cross_entropy = Recorded<device, &Kernels::cross_entropy, "terrace::cross_entropy", 2>::call;
  table.encode_blocks = Recorded<device, &Kernels::encode_blocks, "terrace::encode_blocks", 1>::call;
  table.decode_blocks = Recorded<device, &Kernels::decode_blocks, "terrace::decode_blocks", 1>::call;
  return table;
}

}  // namespace

const Kernels& recorded_where_asked(const Kernels& device_kernels) {
  if (!profile::recording()) return device_kernels;
  if (&device_kernels == &cpu_kernels()) {
    static const Kernels table = recorded<0>(device_kernels);
    return table;
  }
  static const Kernels table = recorded<1>(device_kernels);
  return table;
}

}  // namespace terrace::ops
