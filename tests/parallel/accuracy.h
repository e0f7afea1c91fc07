// Judges layouts by their error against a run in double precision.
#pragma once

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/parallel/exact.h"
#include "tests/parallel/training.h"
#include "tests/pytorch/judge.h"

namespace terrace::parallel {

// Layouts of a model, judged against a run in double precision and one rank in the same type, over several draws of
// data.
inline void expect_as_accurate(Training training, const std::vector<Layout>& layouts, int64_t draws) {
  training.steps = 1;
  training.deterministic = false;
  const at::ScalarType type = nn::scalar_type(training.precision);
  testing::ErrorTally gradients(type), weights(at::kFloat), numbers(type);
  const auto number = [](double value) { return at::full({1}, value, at::kDouble); };
  for (training.first_step = 1; training.first_step <= draws; ++training.first_step) {
    const Outcome one = train(training, {1, {}});
    const Outcome exact = exact_step(training);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(training.model + " on " + layout.name());
      const Outcome ours = train(training, layout);
      for (const auto& [name, truth] : exact.gradients) {
        gradients.add(name, ours.gradients.at(name), one.gradients.at(name), truth);
        weights.add(name, ours.weights.at(name), one.weights.at(name), exact.weights.at(name));
      }
      numbers.add("loss", number(ours.losses[0]), number(one.losses[0]), number(exact.losses[0]));
      numbers.add("norm", number(ours.norms[0]), number(one.norms[0]), number(exact.norms[0]));
    }
  }
  gradients.expect_as_accurate();
  weights.expect_as_accurate();
  numbers.expect_as_accurate();
}

}  // namespace terrace::parallel
