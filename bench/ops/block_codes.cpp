// Times block quantization beside a copy of the same fp32 values, in turns: GB/s of fp32 values of the fastest of many.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "bench/ops/seconds.h"
#include "terrace/ops/kernels.h"

namespace {

using namespace terrace::ops;

constexpr int64_t values = int64_t{1} << 25;  // 128 MiB, which no cache holds

struct Timed {
  const char* what;
  std::function<void()> work;
  double fastest = 1e30;
};

}  // namespace

int main() {
  at::set_num_threads(1);
  const Kernels& kernels = cpu_kernels();
  const at::Tensor from = at::randn({values}), to = at::empty_like(from);
  const RoundingDraw draw{.key = {1, 2}, .words = {3, 4, 5}};
  std::vector<at::Tensor> payloads;
  std::vector<Timed> all = {{"copy", [&] { to.copy_(from); }}};
  const std::pair<BlockCode, const char*> codes[] = {
      {BlockCode::int8, "int8"}, {BlockCode::int4, "int4"}, {BlockCode::fp8, "fp8"}};
  for (const auto& [code, name] : codes) {
    payloads.push_back(at::empty({BlockLayout{code, 1, values}.payload_bytes()}, at::kByte));
  }
  for (size_t i = 0; i < std::size(codes); ++i) {
    const BlockCode code = codes[i].first;
    const at::Tensor& payload = payloads[i];
    all.push_back({"encode", [&, code] { kernels.encode_blocks({.code = code}, from, payload); }});
    all.push_back(
        {"encode at random", [&, code] { kernels.encode_blocks({.code = code, .draw = draw}, from, payload); }});
    all.push_back({"decode", [&, code] { kernels.decode_blocks({.code = code}, payload, to); }});
    all.push_back({"decode and add", [&, code] { kernels.decode_blocks({.code = code, .adds = true}, payload, to); }});
  }
  for (int round = 0; round < 10; ++round) {
    for (Timed& one : all) one.fastest = std::min(one.fastest, seconds(one.work));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    fmt::print("{:<5} {:<17} {:6.2f} GB/s, {:.2f} of the copy\n", i == 0 ? "" : codes[(i - 1) / 4].second, all[i].what,
               4.0 * values / all[i].fastest / 1e9, all.front().fastest / all[i].fastest);
  }
}
