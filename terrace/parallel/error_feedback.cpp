// Composes error feedback from the kernels of block quantization, piece by piece.
#include "terrace/parallel/error_feedback.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "terrace/base/error.h"
#include "terrace/ops/kernels.h"

namespace terrace::parallel {
namespace {

constexpr int64_t scale_bytes = 4;

// The two fp32 temporaries of a piece and its codes fit the second-level cache of one core.
constexpr int64_t piece_of_a_core = int64_t{1} << 16;

constexpr ops::BlockLayout one_part(ops::BlockCode code, int64_t values) {
  return {.code = code, .parts = 1, .values = values};
}

// The places of the codes and the scales of a piece, in bytes from the begin of a payload of whole blocks.
struct PieceBytes {
  int64_t codes, scales;  // of the piece
  int64_t first_code, first_scale;

  // The places of `count` values from `first` on, in a payload of `of` values.
  PieceBytes(ops::BlockCode code, int64_t of, int64_t first, int64_t count)
      : codes(ops::code_bytes(code, count)),
        scales(count / ops::code_block * scale_bytes),
        first_code(ops::code_bytes(code, first)),
        first_scale(ops::code_bytes(code, of) + first / ops::code_block * scale_bytes) {}

  // A piece has a payload of its own while it is coded.
  void take(const at::Tensor& piece, const at::Tensor& payload) const {
    piece.narrow(0, 0, codes).copy_(payload.narrow(0, first_code, codes));
    piece.narrow(0, codes, scales).copy_(payload.narrow(0, first_scale, scales));
  }
  void put(const at::Tensor& piece, const at::Tensor& payload) const {
    payload.narrow(0, first_code, codes).copy_(piece.narrow(0, 0, codes));
    payload.narrow(0, first_scale, scales).copy_(piece.narrow(0, codes, scales));
  }
};

}  // namespace

ErrorFeedback::ErrorFeedback(ops::BlockCode code, int64_t values, at::Device device, int64_t piece_values)
    : code_(code), values_(values), piece_values_(piece_values) {
  TERRACE_CHECK(values % ops::code_block == 0 && piece_values % ops::code_block == 0,
                "{} values in pieces of {} are not whole blocks of {}", values, piece_values, ops::code_block);
  const int64_t bytes = one_part(ops::BlockCode::int8, values).payload_bytes();
  kept_ = at::zeros({bytes}, at::TensorOptions(at::kByte).device(device));
  codes_ = kept_.narrow(0, 0, values);
  scales_ = kept_.narrow(0, values, bytes - values);
}

int64_t ErrorFeedback::piece_of(int64_t part_values) const {
  const int64_t wanted = piece_values_ > 0 ? piece_values_
                         : kept_.is_cpu()  ? piece_of_a_core * at::get_num_threads()
                                           : part_values;
  return std::min(wanted, part_values);
}

at::Tensor ErrorFeedback::encode(const at::Tensor& values, int64_t parts) {
  const int64_t part = values_ / parts;
  TERRACE_CHECK(values.dim() == 1 && values.numel() == values_ && part * parts == values_ &&
                    part % ops::code_block == 0 && values.device() == kept_.device(),
                "{} parts of {} values for the errors of {}", parts, values.numel(), values_);
  const at::NoGradGuard no_grad;
  constexpr ops::BlockCode error_code = ops::BlockCode::int8;
  const ops::Kernels& kernels = ops::kernels(values.device());
  const int64_t part_bytes = one_part(code_, part).payload_bytes(), largest = piece_of(part);
  const auto bytes = kept_.options();
  at::Tensor payloads = at::empty({parts * part_bytes}, bytes);
  const at::Tensor fed = at::empty({largest}, bytes.dtype(at::kFloat)), decoded = at::empty_like(fed);
  const at::Tensor sent = at::empty({one_part(code_, largest).payload_bytes()}, bytes);
  const at::Tensor error = at::empty({one_part(error_code, largest).payload_bytes()}, bytes);
  for (int64_t first = 0; first < values_;) {
    const int64_t in_part = first % part, count = std::min(largest, part - in_part);
    const at::Tensor h = fed.narrow(0, 0, count), rounded = decoded.narrow(0, 0, count);
    const at::Tensor piece = sent.narrow(0, 0, one_part(code_, count).payload_bytes());
    const at::Tensor piece_error = error.narrow(0, 0, one_part(error_code, count).payload_bytes());
    const PieceBytes of_errors(error_code, values_, first, count), of_payload(code_, part, in_part, count);
    h.copy_(values.narrow(0, first, count));
    of_errors.take(piece_error, kept_);
    kernels.decode_blocks({.code = error_code, .adds = true}, piece_error, h);
    kernels.encode_blocks({.code = code_}, h, piece);
    of_payload.put(piece, payloads.narrow(0, first / part * part_bytes, part_bytes));
    kernels.decode_blocks({.code = code_}, piece, rounded);
    h.sub_(rounded).nan_to_num_(0.0, 0.0, 0.0);
    kernels.encode_blocks({.code = error_code}, h, piece_error);
    of_errors.put(piece_error, kept_);
    first += count;
  }
  return payloads;
}

void ErrorFeedback::forget() { kept_.zero_(); }

void ErrorFeedback::scale(double factor) {
  const at::NoGradGuard no_grad;
  constexpr float least = 0x1p-126f, most = std::numeric_limits<float>::max() / 128;
  scales_.view(at::kFloat).mul_(factor).clamp_(least, most);
}

}  // namespace terrace::parallel
