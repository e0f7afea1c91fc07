// Sums the mixed words: in a loop over threads on the CPU, by torch's integer operations elsewhere.
#include "terrace/optim/digest.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace terrace::optim {
namespace {

// Odd, with about as many ones as zeros: the fractions of the golden ratio and of the square root of 2.
constexpr uint64_t place_factor = 0x9E3779B97F4A7C15, word_factor = 0x6A09E667F3BCC909;
constexpr int64_t word_bytes = 8;

// The xor with a number, the xor with the own upper half and the product with an odd number can each be undone. The
// first xor of halves lets the upper bits, such as signs, change the lower ones of the product.
constexpr uint64_t mixed(uint64_t word, uint64_t place) {
  word ^= (place + 1) * place_factor;
  word ^= word >> 32;
  word *= word_factor;
  return word ^ word >> 32;
}

uint64_t sum_of(const char* bytes, int64_t begin, int64_t end) {
  uint64_t sum = 0;
  for (int64_t place = begin; place < end; ++place) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + place * word_bytes, word_bytes);
    sum += mixed(word, static_cast<uint64_t>(place));
  }
  return sum;
}

// The bits, of which the upper half becomes zero.
at::Tensor upper_half_moved_down(const at::Tensor& words) {
  return words.bitwise_right_shift(32).bitwise_and(int64_t{0xFFFFFFFF});
}

}  // namespace

uint64_t digest_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return digest_by_operations(tensor);
  const auto* bytes = static_cast<const char*>(tensor.const_data_ptr());
  const auto size = static_cast<int64_t>(tensor.nbytes());
  const int64_t words = size / word_bytes;
  std::atomic<uint64_t> sum = 0;
  constexpr int64_t words_at_once = 1 << 15;
  at::parallel_for(0, words, words_at_once,
                   [&](int64_t begin, int64_t end) { sum.fetch_add(sum_of(bytes, begin, end)); });
  if (words * word_bytes < size) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + words * word_bytes, static_cast<size_t>(size - words * word_bytes));
    sum.fetch_add(mixed(word, static_cast<uint64_t>(words)));
  }
  return sum.load();
}

uint64_t digest_by_operations(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = tensor.flatten().view(at::kByte);
  const int64_t size = bytes.numel();
  constexpr int64_t words_at_once = 1 << 22;
  uint64_t sum = 0;
  for (int64_t first = 0; first * word_bytes < size; first += words_at_once) {
    const int64_t begin = first * word_bytes, end = std::min(size, begin + words_at_once * word_bytes);
    const int64_t count = (end - begin + word_bytes - 1) / word_bytes;
    // A copy, since a view as words needs an address that is a multiple of eight.
    at::Tensor words = at::zeros({count * word_bytes}, bytes.options());
    words.narrow(0, 0, end - begin).copy_(bytes.narrow(0, begin, end - begin));
    words = words.view(at::kLong);
    const at::Tensor places = at::arange(first + 1, first + 1 + count, words.options());
    words = words.bitwise_xor(places.mul(std::bit_cast<int64_t>(place_factor)));
    words = words.bitwise_xor(upper_half_moved_down(words)).mul(std::bit_cast<int64_t>(word_factor));
    words = words.bitwise_xor(upper_half_moved_down(words));
    sum += std::bit_cast<uint64_t>(words.sum().item<int64_t>());
  }
  return sum;
}

uint64_t followed_by(uint64_t digest, uint64_t next) { return mixed(std::rotl(digest, 29) ^ next, digest); }

}  // namespace terrace::optim
