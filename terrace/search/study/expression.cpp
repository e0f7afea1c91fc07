// Evaluates the steps of an expression on a stack.
#include "terrace/search/study/expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The remainder of a / b, with the sign of b.
double modulo(double a, double b) { return b == 0 ? not_a_number : a - b * std::floor(a / b); }

// A side that decides alone decides also if the other is NaN.
double logical_and(double a, double b) {
  if (a == 0 || b == 0) return 0;
  return std::isnan(a) || std::isnan(b) ? not_a_number : 1;
}

}  // namespace

double Expression::apply(Operation operation, double a) {
  switch (operation) {
    case Operation::negate:
      return -a;
    case Operation::logical_not:
      return std::isnan(a) ? a : a == 0;
    case Operation::floor:
      return std::floor(a);
    case Operation::ceil:
      return std::ceil(a);
    default:
      return a > 0 ? std::log2(a) : not_a_number;
  }
}

double Expression::apply(Operation operation, double a, double b) {
  if (operation == Operation::logical_and) return logical_and(a, b);
  if (operation == Operation::logical_or) {
    const double neither = logical_and(apply(Operation::logical_not, a), apply(Operation::logical_not, b));
    return apply(Operation::logical_not, neither);
  }
  if (std::isnan(a) || std::isnan(b)) return not_a_number;
  switch (operation) {
    case Operation::add:
      return a + b;
    case Operation::subtract:
      return a - b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      return b == 0 ? not_a_number : a / b;
    case Operation::floor_divide:
      return b == 0 ? not_a_number : std::floor(a / b);
    case Operation::modulo:
      return modulo(a, b);
    case Operation::power:
      return std::pow(a, b);
    case Operation::less:
      return a < b;
    case Operation::less_equal:
      return a <= b;
    case Operation::greater:
      return a > b;
    case Operation::greater_equal:
      return a >= b;
    case Operation::equal:
      return a == b;
    case Operation::not_equal:
      return a != b;
    case Operation::minimum:
      return std::min(a, b);
    case Operation::maximum:
      return std::max(a, b);
    default:
      return a == 0 ? not_a_number : modulo(b, a) == 0;
  }
}

void Expression::bind(const std::function<size_t(const std::string&)>& slot_of) {
  for (const std::string& name : names_) slots_.push_back(slot_of(name));
  for (Step& step : steps_) {
    if (step.operation == Operation::name) step.slot = slots_[step.slot];
  }
}

double Expression::evaluate(std::span<const double> values) const {
  std::vector<double> stack;
  for (const Step& step : steps_) {
    if (step.operation == Operation::number) {
      stack.push_back(step.number);
    } else if (step.operation == Operation::name) {
      stack.push_back(values[step.slot]);
    } else if (step.operation == Operation::negate || step.operation == Operation::logical_not ||
               step.operation == Operation::floor || step.operation == Operation::ceil ||
               step.operation == Operation::log2) {
      stack.back() = apply(step.operation, stack.back());
    } else {
      const double right = stack.back();
      stack.pop_back();
      stack.back() = apply(step.operation, stack.back(), right);
    }
  }
  TERRACE_CHECK(stack.size() == 1, "the steps of '{}' leave {} numbers", text_, stack.size());
  return stack.back();
}

}  // namespace terrace::search
