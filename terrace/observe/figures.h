// The part of a family that names what its training and its evaluations give beside the loss.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::observe {

// Sums that a model computes over some samples for one of the terms of its loss: the numbers of the term, added up or
// the largest ones, and the count that belongs to them, such as tokens. A count may be a fraction, as a sum of weights
// is.
struct TermSum {
  std::vector<double> values = {};
  double count = 0;
};
// In the order of the model's terms; sums of a step have its tallies behind them (models::Tally), whose counts are the
// samples of the step.
using TermSums = std::vector<TermSum>;

enum class Better { lower, higher, neither };
const char* name_of(Better better);

// A number that follows from sums over any samples: those of a step, or of a held-out dataset.
struct Figure {
  std::string name;  // the key in the metrics, in evaluations with validation_ in front: "rmse_temperature"
  std::string unit = "";
  Better better = Better::lower;
  bool in_steps = true;  // also of every training step, not of evaluations alone
  // Figures of steps alone, which are made of the model's tallies, come last in a list.
  bool in_evaluations = true;
  std::function<double(const TermSums&)> value = {};
};

// value[index] / count of a term, its root, and the quotient of two numbers of terms.
std::function<double(const TermSums&)> mean_of(size_t term, size_t index = 0);
std::function<double(const TermSums&)> root_mean_of(size_t term, size_t index = 0);
std::function<double(const TermSums&)> quotient_of(size_t term, size_t divisor, size_t index = 0);
// value[index] of a term, as of one that takes the largest.
std::function<double(const TermSums&)> number_of(size_t term, size_t index = 0);

// The beginning of the names of figures that tell how far the outputs of a network lie apart over a micro-batch, in
// terms of how far their labels do. If an output is below `least_spread` for steps on end, it is the same whatever its
// inputs are: the network is dead, as where a layer's units of ReLU are 0 for all inputs.
inline constexpr const char* spread_prefix = "spread_";
inline constexpr double least_spread = 1e-5;
// The name of the output; "" of another figure.
std::string output_of_spread(const std::string& figure);
// "the output total has the same value for all inputs ..", with the ways out.
std::string dead_output_text(const std::string& output);

class Figures {
 public:
  virtual ~Figures() = default;
  // The unit of the loss that training minimises: "nats a token".
  virtual std::string loss_unit(const config::Config&) const { return ""; }
  // Names are lower-case words joined by _, and differ from each other and from the keys that all metrics have. Called
  // with configurations of the family.
  virtual std::vector<Figure> list(const config::Config&) const { return {}; }
};

// The figures of the configuration's family.
const Figures& figures_of(const config::Config& config);

// The values of the figures over the same samples: of those in_steps if `of_step`, else of those in_evaluations.
std::vector<double> values_of(const std::vector<Figure>& figures, const TermSums& sums, bool of_step);

}  // namespace terrace::observe
