// Arithmetic expressions over named numbers, such as "train.micro_batch * accumulation * data": + - * / // % **,
// comparisons, and, or, not, parentheses, min, max, floor, ceil, log2 and divides(a, b).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::search {

// The operators bind as in Python, and ** from the right; comparisons are not chained. A comparison gives 1 or 0, and
// every number but 0 is true. The value of x / 0, x // 0, x % 0 and log2 of a number below or at 0 is NaN, as is every
// expression whose value depends on it.
class Expression {
 public:
  // Throws UserError: "at character 7: expected .., found ..".
  explicit Expression(std::string text);

  const std::string& text() const { return text_; }
  // The names in the expression, each once, in the order of the text.
  const std::vector<std::string>& names() const { return names_; }
  // Says where evaluate() finds the value of each name.
  void bind(const std::function<size_t(const std::string&)>& slot_of);
  // The slots that bind() was given, by name.
  const std::vector<size_t>& slots() const { return slots_; }
  // If bind() was not called, the values are those of names().
  double evaluate(std::span<const double> values) const;

 private:
  friend class ExpressionParser;
  enum class Operation {
    number,
    name,
    negate,
    logical_not,
    add,
    subtract,
    multiply,
    divide,
    floor_divide,
    modulo,
    power,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    not_equal,
    logical_and,
    logical_or,
    minimum,
    maximum,
    floor,
    ceil,
    log2,
    divides,
  };
  // A step of the expression in postfix order: operands come before their operation.
  struct Step {
    Operation operation;
    double number = 0;
    size_t slot = 0;
  };

  static double apply(Operation operation, double a);
  static double apply(Operation operation, double a, double b);

  std::string text_;
  std::vector<std::string> names_;
  std::vector<size_t> slots_;
  std::vector<Step> steps_;
};

// Whether the value of a condition is true; NaN is not.
inline bool is_true(double value) { return value < 0 || value > 0; }

}  // namespace terrace::search
