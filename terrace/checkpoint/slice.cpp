// Computes slices of whole tensors and their overlaps.
#include "terrace/checkpoint/slice.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {

namespace {

// The record of a slice that lies in one piece in the whole tensor.
TensorRecord record_of(const NamedTensor& named, const SliceBounds& bounds) {
  const ParamMark& mark = named.mark;
  return {.name = named.name,
          .entry = named.name,
          .type = std::string(safetensors_type(named.tensor.scalar_type())),
          .global_shape = mark.global_shape,
          .offset = bounds.offset,
          .shape = bounds.shape,
          .kind = mark.kind,
          .dim = mark.dim,
          .axis = mark.axis};
}

void check_fits(const NamedTensor& named, const std::vector<int64_t>& shape) {
  const ParamMark& mark = named.mark;
  TERRACE_CHECK(mark.kind != ParamMark::Kind::unmarked, "tensor '{}' is not marked", named.name);
  const bool has_dim = mark.kind != ParamMark::Kind::sharded ||
                       (mark.dim >= 0 && mark.dim < static_cast<int64_t>(mark.global_shape.size()));
  TERRACE_CHECK(has_dim, "tensor '{}' of shape [{}] is cut in dimension {}", named.name,
                fmt::join(mark.global_shape, ", "), mark.dim);
  bool fits = shape == local_shape(mark);
  for (const RowRange& rows : mark.row_ranges) {
    fits = fits && rows.begin >= 0 && rows.begin + rows.size <= mark.global_shape.at(mark.dim);
  }
  TERRACE_CHECK(fits, "tensor '{}' of shape [{}] does not fit its mark: [{}] of [{}]", named.name,
                fmt::join(shape, ", "), fmt::join(local_shape(mark), ", "), fmt::join(mark.global_shape, ", "));
}

std::string entry_of(const TensorRecord& record) {
  if (record.shape == record.global_shape) return record.name;
  return fmt::format("{}@{}", record.name, fmt::join(record.offset, ","));
}

}  // namespace

namespace {

// Adds a slice of this rank's tensor and its values, as one for each row range that it overlaps.
void add_slices(const NamedTensor& named, const SliceBounds& bounds, const at::Tensor& values,
                std::vector<Slice>& slices) {
  const auto add = [&](const SliceBounds& place, const at::Tensor& own) {
    Slice slice{record_of(named, place), own};
    slice.record.entry = entry_of(slice.record);
    slices.push_back(std::move(slice));
  };
  if (named.mark.kind != ParamMark::Kind::sharded) return add(bounds, values);
  const int64_t dim = named.mark.dim, begin = bounds.offset[dim], end = begin + bounds.shape[dim];
  int64_t at = 0;
  for (const RowRange& rows : named.mark.row_ranges) {
    const int64_t from = std::max(begin, at), to = std::min(end, at + rows.size);
    if (from < to) {
      SliceBounds place = bounds;
      place.offset[dim] = rows.begin + from - at;
      place.shape[dim] = to - from;
      add(place, values.narrow(dim, from - begin, to - from));
    }
    at += rows.size;
  }
}

}  // namespace

std::vector<Slice> slices_of(const NamedTensor& named) {
  std::vector<Slice> slices;
  if (!named.range) {
    const std::vector<int64_t> shape = named.tensor.sizes().vec();
    check_fits(named, shape);
    add_slices(named, {std::vector<int64_t>(shape.size(), 0), shape}, named.tensor, slices);
    return slices;
  }
  const ElementRange& range = *named.range;
  TERRACE_CHECK(named.tensor.dim() == 1 && named.tensor.numel() == range.end - range.begin,
                "tensor '{}' of shape [{}] for elements {} to {}", named.name, fmt::join(named.tensor.sizes(), ", "),
                range.begin, range.end);
  check_fits(named, range.shape);
  int64_t done = 0;
  for (const SliceBounds& bounds : slices_in(range)) {
    add_slices(named, bounds, named.tensor.detach().narrow(0, done, bounds.numel()).view(bounds.shape), slices);
    done += bounds.numel();
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
