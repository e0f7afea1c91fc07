// Judges layouts by their error against a run in double precision.
#pragma once

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/parallel/exact.h"
#include "tests/parallel/training.h"
#include "tests/pytorch/judge.h"

namespace terrace::parallel {

// Judges layouts by comparison with a run in double precision and with one rank in the same type. The error of a tensor
// is taken over all draws of data and all trainings that were added: AdamW magnifies errors of gradients near epsilon,
// so in a single training a few elements determine the error of a weight.
class Accuracy {
 public:
  explicit Accuracy(at::ScalarType type) : gradients_(type), weights_(at::kFloat), numbers_(type) {}

  void add(Training training, const std::vector<Layout>& layouts, int64_t draws) {
    training.steps = 1;
    training.deterministic = false;
    for (training.first_step = 1; training.first_step <= draws; ++training.first_step) {
      const auto& [one, exact] = baseline(training);
      for (const Layout& layout : layouts) {
        SCOPED_TRACE(training.model + " on " + layout.name());
        add(train(training, layout), one, exact);
      }
    }
  }

  void expect_as_accurate() const {
    gradients_.expect_as_accurate();
    weights_.expect_as_accurate();
    numbers_.expect_as_accurate();
  }

 private:
  struct Baseline {
    Outcome one, exact;
  };

  // Recompute changes no bit, so all settings of recompute share one reference.
  const Baseline& baseline(Training training) {
    training.recompute = config::Recompute::none;
    const auto found = baselines_.find(training);
    if (found != baselines_.end()) return found->second;
    return baselines_.emplace(training, Baseline{train(training, {1, {}}), exact_step(training)}).first->second;
  }

  void add(const Outcome& ours, const Outcome& one, const Outcome& exact) {
    const auto number = [](double value) { return at::full({1}, value, at::kDouble); };
    for (const auto& [name, truth] : exact.gradients) {
      gradients_.add(name, ours.gradients.at(name), one.gradients.at(name), truth);
      weights_.add(name, ours.weights.at(name), one.weights.at(name), exact.weights.at(name));
    }
    numbers_.add("loss", number(ours.losses[0]), number(one.losses[0]), number(exact.losses[0]));
    numbers_.add("norm", number(ours.norms[0]), number(one.norms[0]), number(exact.norms[0]));
  }

  testing::ErrorTally gradients_, weights_, numbers_;
  std::map<Training, Baseline> baselines_;
};

}  // namespace terrace::parallel
