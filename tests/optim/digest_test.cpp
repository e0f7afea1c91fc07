// Tests the digests of tensors: that any flipped bit shows, and that threads, devices and alignment do not.
#include "terrace/optim/digest.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <set>

#include "terrace/base/random.h"

namespace terrace::optim {
namespace {

at::Tensor random_bytes(int64_t bytes) {
  at::Tensor tensor = at::empty({bytes}, at::kByte);
  for (int64_t i = 0; i < bytes; ++i) {
    tensor.mutable_data_ptr<uint8_t>()[i] =
        static_cast<uint8_t>(philox_at({3, 4}, static_cast<uint64_t>(i), 0)[0] & 0xFF);
  }
  return tensor;
}

TEST(Digest, EveryFlippedBitGivesAnotherOne) {
  for (const int64_t bytes : {1, 7, 8, 9, 50}) {
    at::Tensor tensor = random_bytes(bytes);
    std::set<uint64_t> digests = {digest_of(tensor)};
    for (int64_t bit = 0; bit < 8 * bytes; ++bit) {
      uint8_t& byte = tensor.mutable_data_ptr<uint8_t>()[bit / 8];
      byte ^= static_cast<uint8_t>(1 << bit % 8);
      digests.insert(digest_of(tensor));
      byte ^= static_cast<uint8_t>(1 << bit % 8);
    }
    EXPECT_EQ(std::ssize(digests), 8 * bytes + 1);
  }
}

// Changes that cancel in a plain sum: two equal flips, all signs, and two words in exchange.
TEST(Digest, ChangesOfSeveralWordsShow) {
  const at::Tensor numbers = at::arange(64, at::kFloat);
  const uint64_t whole = digest_of(numbers);
  EXPECT_NE(digest_of(numbers.neg()), whole);
  EXPECT_NE(digest_of(numbers.flip(0).contiguous()), whole);
  for (int64_t other = 2; other < 64; other += 2) {
    at::Tensor two = numbers.clone();
    two.mutable_data_ptr<float>()[1] *= -1;
    two.mutable_data_ptr<float>()[other + 1] *= -1;
    EXPECT_NE(digest_of(two), whole) << other;
  }
  EXPECT_NE(digest_of(at::zeros({4})), digest_of(at::zeros({6})));
}

TEST(Digest, IsTheSameByOperationsOfTorchAndWithAnyThreads) {
  for (const int64_t bytes : {int64_t{0}, int64_t{5}, int64_t{8}, int64_t{4096}, (int64_t{1} << 20) + 12}) {
    const at::Tensor tensor = random_bytes(bytes);
    at::set_num_threads(1);
    const uint64_t digest = digest_of(tensor);
    EXPECT_EQ(digest_by_operations(tensor), digest) << bytes;
    at::set_num_threads(2);
    EXPECT_EQ(digest_of(tensor), digest) << bytes;
    at::set_num_threads(1);
  }
  // A part that begins in the middle of a word, as parts of bf16 tensors do.
  const at::Tensor part = random_bytes(64).view(at::kBFloat16).narrow(0, 1, 20);
  EXPECT_EQ(digest_of(part), digest_by_operations(part));
  EXPECT_EQ(digest_of(part), digest_of(part.clone()));
}

TEST(Digest, OfAListDependsOnItsOrder) {
  EXPECT_NE(followed_by(followed_by(0, 1), 2), followed_by(followed_by(0, 2), 1));
  EXPECT_NE(followed_by(0, 0), 0u);
}

}  // namespace
}  // namespace terrace::optim
