// Checks that AdamW's arithmetic does not depend on the ends of shards, on threads or on the storage of masters.
#include "terrace/optim/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "terrace/base/random.h"
#include "terrace/optim/kernels.h"
#include "tests/optim/some_step.h"

namespace terrace::optim {
namespace {

at::Tensor random_tensor(int64_t size, std::string_view name, double scale) {
  at::Tensor tensor = at::empty({size});
  const PhiloxKey key = stream_key(1, name);
  for (int64_t i = 0; i < size; ++i) {
    const PhiloxBlock block = philox_at(key, static_cast<uint64_t>(i), 0);
    tensor.data_ptr<float>()[i] = static_cast<float>((unit_uniform(block[0], block[1]) - 0.5) * scale);
  }
  return tensor;
}

struct States {
  at::Tensor gradient, master, m, v;
};

States random_states(int64_t size) {
  return {random_tensor(size, "gradient", 2), random_tensor(size, "master", 1), random_tensor(size, "m", 0.1),
          random_tensor(size, "v", 0.1).square()};
}

TEST(AdamW, SameBitsWhereverShardsEnd) {
  for (int64_t size : {1, 2, 3, 17, 1000, 40001}) {
    States whole = random_states(size);
    adamw_step(some_step(), whole.gradient, whole.master, whole.m, whole.v, whole.master);
    for (int64_t cut : {size / 3, size / 2, size - 1}) {
      States parts = random_states(size);
      for (const auto& [begin, length] : {std::pair{int64_t{0}, cut}, std::pair{cut, size - cut}}) {
        States slice = {parts.gradient.narrow(0, begin, length), parts.master.narrow(0, begin, length),
                        parts.m.narrow(0, begin, length), parts.v.narrow(0, begin, length)};
        adamw_step(some_step(), slice.gradient, slice.master, slice.m, slice.v, slice.master);
      }
      EXPECT_TRUE(parts.master.equal(whole.master)) << size << " cut at " << cut;
      EXPECT_TRUE(parts.m.equal(whole.m) && parts.v.equal(whole.v)) << size << " cut at " << cut;
    }
  }
}

TEST(AdamW, TheModelsTypeIsTheRoundedMaster) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    States in_place = random_states(1003), apart = random_states(1003);
    at::Tensor value = at::empty({1003}, type);
    adamw_step(some_step(), in_place.gradient, in_place.master, in_place.m, in_place.v, in_place.master);
    adamw_step(some_step(), apart.gradient, apart.master, apart.m, apart.v, value);
    EXPECT_TRUE(apart.master.equal(in_place.master));
    EXPECT_TRUE(value.equal(in_place.master.to(type)));
  }
}

TEST(AdamW, GradientsOfSixteenBitsAreReadAsTheirValues) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    States narrow = random_states(517), wide = random_states(517);
    narrow.gradient = narrow.gradient.to(type);
    wide.gradient = narrow.gradient.to(at::kFloat);
    adamw_step(some_step(), narrow.gradient, narrow.master, narrow.m, narrow.v, narrow.master);
    adamw_step(some_step(), wide.gradient, wide.master, wide.m, wide.v, wide.master);
    EXPECT_TRUE(narrow.master.equal(wide.master));
  }
}

TEST(AdamW, SameBitsOnAnyThreads) {
  States one = random_states(100003), two = random_states(100003);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  adamw_step(some_step(), one.gradient, one.master, one.m, one.v, one.master);
  at::set_num_threads(2);
  adamw_step(some_step(), two.gradient, two.master, two.m, two.v, two.master);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.master.equal(two.master));
}

TEST(AdamW, AFirstStepMovesByTheRateAgainstTheGradient) {
  // With m = v = 0 and no weight decay, the corrected m / sqrt(v) is the sign of the gradient.
  States states{random_tensor(9, "gradient", 2), at::zeros({9}), at::zeros({9}), at::zeros({9})};
  AdamWStep step = some_step();
  step.weight_decay = 0;
  step.count = 1;
  adamw_step(step, states.gradient, states.master, states.m, states.v, states.master);
  const at::Tensor expected = states.gradient.sign().mul(-1e-2);
  // Three roundings of numbers near 1, and epsilon relative to a gradient of at least 1e-3: within 1e-4 of the rate.
  EXPECT_LT(states.master.sub(expected).abs().max().item<double>(), 1e-6);
}

}  // namespace
}  // namespace terrace::optim
