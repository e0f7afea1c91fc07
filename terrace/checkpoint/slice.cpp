// Slices of whole tensors: intersection of boxes.
#include "terrace/checkpoint/slice.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {

namespace {

// The record of the slice that the mark means, which has `shape`.
TensorRecord record_of(const NamedTensor& named, const std::vector<int64_t>& shape) {
  const ParamMark& mark = named.mark;
  const int64_t dims = static_cast<int64_t>(mark.global_shape.size());
  TERRACE_CHECK(mark.kind != ParamMark::Kind::unmarked, "tensor '{}' is not marked", named.name);
  TensorRecord record{.name = named.name,
                      .entry = named.name,
                      .type = std::string(safetensors_type(named.tensor.scalar_type())),
                      .global_shape = mark.global_shape,
                      .offset = std::vector<int64_t>(mark.global_shape.size(), 0),
                      .shape = shape,
                      .kind = mark.kind,
                      .dim = mark.dim,
                      .axis = mark.axis};
  std::vector<int64_t> expected = mark.global_shape;
  bool fits = static_cast<int64_t>(shape.size()) == dims;
  if (mark.kind == ParamMark::Kind::sharded) {
    fits = fits && mark.dim >= 0 && mark.dim < dims;
    if (fits) {
      record.offset[mark.dim] = mark.offset;
      expected[mark.dim] = record.shape[mark.dim];
      fits = mark.offset >= 0 && mark.offset + expected[mark.dim] <= mark.global_shape[mark.dim];
    }
  }
  TERRACE_CHECK(fits && record.shape == expected, "tensor '{}' of shape [{}] does not fit its mark: [{}], dim {} at {}",
                named.name, fmt::join(record.shape, ", "), fmt::join(mark.global_shape, ", "), mark.dim, mark.offset);
  return record;
}

std::string entry_of(const TensorRecord& record) {
  if (record.shape == record.global_shape) return record.name;
  return fmt::format("{}@{}", record.name, fmt::join(record.offset, ","));
}

}  // namespace

std::vector<Slice> slices_of(const NamedTensor& named) {
  if (!named.range) return {{record_of(named, named.tensor.sizes().vec()), named.tensor}};
  const ElementRange& range = *named.range;
  TERRACE_CHECK(named.tensor.dim() == 1 && named.tensor.numel() == range.end - range.begin,
                "tensor '{}' of shape [{}] for elements {} to {}", named.name, fmt::join(named.tensor.sizes(), ", "),
                range.begin, range.end);
  const TensorRecord whole = record_of(named, range.shape);
  std::vector<Slice> slices;
  int64_t done = 0;
  for (const Box& box : boxes_of(range)) {
    Slice slice{whole, named.tensor.detach().narrow(0, done, box.numel()).view(box.shape)};
    for (size_t d = 0; d < box.offset.size(); ++d) slice.record.offset[d] += box.offset[d];
    slice.record.shape = box.shape;
    slice.record.entry = entry_of(slice.record);
    slices.push_back(std::move(slice));
    done += box.numel();
  }
  return slices;
}

int64_t Overlap::numel() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

Overlap overlap(const TensorRecord& first, const TensorRecord& second) {
  Overlap common;
  for (size_t d = 0; d < first.shape.size(); ++d) {
    const int64_t begin = std::max(first.offset[d], second.offset[d]);
    const int64_t end = std::min(first.offset[d] + first.shape[d], second.offset[d] + second.shape[d]);
    common.from_first.push_back(begin - first.offset[d]);
    common.from_second.push_back(begin - second.offset[d]);
    common.shape.push_back(std::max<int64_t>(end - begin, 0));
  }
  return common;
}

at::Tensor view_at(at::Tensor tensor, const std::vector<int64_t>& offset, const std::vector<int64_t>& shape) {
  for (size_t d = 0; d < shape.size(); ++d) tensor = tensor.narrow(static_cast<int64_t>(d), offset[d], shape[d]);
  return tensor;
}

}  // namespace terrace::checkpoint
