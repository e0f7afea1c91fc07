// Times the output matrix with its loss and all gradients beside its three products alone, in turns: milliseconds of
// the fastest of many, and what the loss adds to its products. Arguments, if any, are TOKENS,WIDTH,VOCABULARY.
#include "terrace/ops/loss/vocabulary_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "bench/ops/seconds.h"
#include "terrace/memory/host_memory.h"
#include "terrace/ops/products/products.h"

namespace {

using namespace terrace::ops;

struct Size {
  int64_t tokens, width, vocabulary;
};

void compare(at::ScalarType type, const Size& size) {
  constexpr Products own = Products::own;
  // The numbers are as large as the model's hidden states and embeddings: 1 and 0.02.
  const at::Tensor hidden = at::randn({size.tokens, size.width}).to(type);
  const Weight weight{.value = at::randn({size.vocabulary, size.width}).mul_(0.02).to(type).set_requires_grad(true),
                      .gradient = at::zeros({size.vocabulary, size.width}),
                      .products = {own, own, own}};
  const at::Tensor targets = at::randint(0, size.vocabulary, {size.tokens}, at::kLong);
  const VocabularyLossOptions options{.vocabulary = size.vocabulary,
                                      .gradient_scale = 1.0 / static_cast<double>(size.tokens)};
  const int64_t chunk = tokens_per_chunk(size.tokens, weight.value, options.chunk_bytes);
  const at::Tensor dx = at::empty_like(hidden), logits = at::empty({chunk, size.vocabulary}, hidden.options());
  const auto loss = [&] { vocabulary_loss(hidden, weight, targets, options); };
  const auto products = [&] {
    const at::NoGradGuard no_grad;
    for (int64_t begin = 0; begin < size.tokens; begin += chunk) {
      const int64_t rows = std::min(chunk, size.tokens - begin);
      const at::Tensor x = hidden.narrow(0, begin, rows), y = logits.narrow(0, 0, rows);
      times_transposed_into(y, x, weight.value, own);
      times_into(dx.narrow(0, begin, rows), y, weight.value, own);
      add_outer_product(weight.gradient, y, x, own);
    }
  };
  double with_loss = 1e30, alone = 1e30;
  for (int round = 0; round < 8; ++round) {
    with_loss = std::min(with_loss, seconds(loss));
    alone = std::min(alone, seconds(products));
  }
  fmt::print(
      "{:<8} {:6} tokens, width {:5}, {:7} words: {:8.1f} ms with the loss, {:8.1f} of products alone, {:+.1f}%\n",
      at::toString(type), size.tokens, size.width, size.vocabulary, with_loss * 1e3, alone * 1e3,
      100 * (with_loss / alone - 1));
}

}  // namespace

int main(int argc, char** argv) {
  terrace::memory::keep_host_memory();
  std::vector<Size> sizes{{2048, 256, 32000},  {2048, 280, 78169}, {2048, 512, 78169}, {1024, 768, 128000},
                          {1024, 1536, 32000}, {512, 768, 256000}, {512, 2048, 256000}};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) {
    Size size{};
    if (std::sscanf(argv[i], "%ld,%ld,%ld", &size.tokens, &size.width, &size.vocabulary) != 3) {
      fmt::print(stderr, "{} is not TOKENS,WIDTH,VOCABULARY, such as 2048,512,78169\n", argv[i]);
      return 2;
    }
    sizes.push_back(size);
  }
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Size& size : sizes) compare(type, size);
  }
}
