// SiLU has torch's values, and torch's derivatives up to the third, and keeps less for them.
#include "terrace/ops/elements/silu.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/silu.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>

#include "terrace/memory/meter.h"

namespace terrace::ops {
namespace {

using Activate = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor torch_silu(const at::Tensor& x) { return at::silu(x); }

TEST(Silu, HasTorchsValuesInEachType) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const at::Tensor x = at::linspace(-120, 120, 1237, at::kDouble).to(type);
    EXPECT_TRUE(ops::silu(x).equal(at::silu(x))) << at::toString(type);
  }
}

TEST(Silu, ThreeDerivativesAreTorchs) {
  const auto derivatives = [](const Activate& silu) {
    const at::Tensor x = at::linspace(-30, 30, 121, at::kDouble).set_requires_grad(true);
    const at::Tensor first = torch::autograd::grad({silu(x).square().sum()}, {x}, {}, true, true)[0];
    const at::Tensor second = torch::autograd::grad({first.square().sum()}, {x}, {}, true, true)[0];
    const at::Tensor third = torch::autograd::grad({second.sin().sum()}, {x})[0];
    return at::cat({first.detach(), second.detach(), third});
  };
  const at::Tensor expected = derivatives(torch_silu), got = derivatives(ops::silu);
  EXPECT_GT(expected.slice(0, 242).abs().max().item<double>(), 1);
  EXPECT_LT(got.sub(expected).abs().div(expected.abs().add(1)).max().item<double>(), 1e-11);
}

// In fp32 the second derivative, of which torch makes ten operations, is at least as accurate.
TEST(Silu, SecondDerivativesAreAsAccurateAsTorchs) {
  const auto second = [](const Activate& silu, at::ScalarType type) {
    const at::Tensor x = at::linspace(-20, 20, 1237, at::kDouble).to(type).set_requires_grad(true);
    const at::Tensor first = torch::autograd::grad({silu(x).sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0].to(at::kDouble);
  };
  // The numbers of fp32 are those of double precision too.
  const at::Tensor x = at::linspace(-20, 20, 1237, at::kDouble).to(at::kFloat).to(at::kDouble).set_requires_grad(true);
  const at::Tensor slope = torch::autograd::grad({at::silu(x).sum()}, {x}, {}, true, true)[0];
  const at::Tensor exact = torch::autograd::grad({slope.sum()}, {x})[0];
  const auto error = [&](const Activate& silu) {
    return second(silu, at::kFloat).sub(exact).abs().max().item<double>();
  };
  EXPECT_LE(error(ops::silu), 2 * error(torch_silu) + 0x1p-24);
}

TEST(Silu, ADerivativeThatIsDifferentiatedKeepsNothingButItsInputs) {
  const auto kept = [](const Activate& silu) {
    const at::Tensor x = at::linspace(-3, 3, 100'000, at::kFloat).set_requires_grad(true);
    const auto meter = std::make_shared<memory::Meter>();
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter);
    const at::Tensor first = torch::autograd::grad({silu(x).sum()}, {x}, {}, true, true)[0];
    return meter->now / 400'000.0;  // in tensors like x
  };
  EXPECT_LT(kept(ops::silu), 1.1);  // beside x the result; its gradient is one number
  EXPECT_GT(kept(torch_silu), 3);
}

}  // namespace
}  // namespace terrace::ops
