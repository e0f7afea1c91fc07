// Evaluates expressions, and refuses texts that are none.
#include "terrace/search/study/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::search {
namespace {

double value_of(const std::string& text, std::vector<double> values = {}) { return Expression(text).evaluate(values); }

std::string refusal(const std::string& text) {
  try {
    const Expression expression(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Expression, BindsAsPythonDoes) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_EQ(value_of("2 ** 3 ** 2"), 512);
  EXPECT_EQ(value_of("-2 ** 2"), -4);
  EXPECT_EQ(value_of("2 ** -1"), 0.5);
  EXPECT_EQ(value_of("7 / 2"), 3.5);
  EXPECT_EQ(value_of("7 // 2"), 3);
  EXPECT_EQ(value_of("-7 // 2"), -4);
  EXPECT_EQ(value_of("7 % 4"), 3);
  EXPECT_EQ(value_of("-7 % 4"), 1);
  EXPECT_EQ(value_of("1.5e2 + .5"), 150.5);
  EXPECT_EQ(value_of("1 + 1 == 2 and not 3 < 2"), 1);
  EXPECT_EQ(value_of("1 or 0 and 0"), 1);
  EXPECT_EQ(value_of("not not 5"), 1);
}

TEST(Expression, EvaluatesFunctions) {
  EXPECT_EQ(value_of("min(3, 1, 2) + max(3, 1, 2)"), 4);
  EXPECT_EQ(value_of("floor(2.7) + ceil(2.2)"), 5);
  EXPECT_EQ(value_of("log2(1024)"), 10);
  EXPECT_EQ(value_of("divides(4, 96)"), 1);
  EXPECT_EQ(value_of("divides(5, 96)"), 0);
}

TEST(Expression, NamesNumbers) {
  Expression expression("layout.tensor * nodes + layout.tensor");
  EXPECT_EQ(expression.names(), (std::vector<std::string>{"layout.tensor", "nodes"}));
  EXPECT_EQ(expression.evaluate(std::vector<double>{4, 3}), 16);
  expression.bind([](const std::string& name) { return name == "nodes" ? size_t{0} : size_t{2}; });
  EXPECT_EQ(expression.evaluate(std::vector<double>{3, -1, 4}), 16);
}

TEST(Expression, NoValueAfterADivisionByZero) {
  for (const char* text : {"1 / 0", "1 // 0", "1 % 0", "log2(0)", "divides(0, 4)", "1 / 0 > 2", "not 1 / 0",
                           "max(1, 1 / 0)", "1 and 1 / 0"}) {
    EXPECT_TRUE(std::isnan(value_of(text))) << text;
    EXPECT_FALSE(is_true(value_of(text))) << text;
  }
  EXPECT_EQ(value_of("0 and 1 / 0"), 0);
  EXPECT_EQ(value_of("1 / 0 > 2 or 1"), 1);
}

TEST(Expression, SaysWhereItIsWrong) {
  EXPECT_EQ(refusal(""), "at character 1: expected a number, a name or '(', found the end");
  EXPECT_EQ(refusal("2 * * 3"), "at character 5: expected a number, a name or '(', found '*'");
  EXPECT_EQ(refusal("(1 + 2"), "at character 7: expected ')', found the end");
  EXPECT_EQ(refusal("1 2"), "at character 3: expected an operator or the end, found '2'");
  EXPECT_EQ(refusal("2x"), "at character 2: expected an operator after 2");
  EXPECT_EQ(refusal("a = 2"), "at character 3: '=' is no operator; write ==");
  EXPECT_EQ(refusal("a & b"),
            "at character 3: '&' is no operator; there are + - * / // % ** < <= > >= == !=, and, or, not");
  EXPECT_EQ(refusal("1 < a < 3"), "at character 7: comparisons are not chained; write a < b and b < c");
  EXPECT_EQ(refusal("flor(2)"), "at character 1: there is no function flor; did you mean floor?");
  EXPECT_EQ(refusal("divides(2)"), "at character 1: divides takes 2 arguments, not 1");
  EXPECT_EQ(refusal("floor(1, 2)"), "at character 1: floor takes 1 argument, not 2");
  EXPECT_EQ(refusal("min(1)"), "at character 1: min takes 2 or more arguments, not 1");
  EXPECT_EQ(refusal("1e999"), "at character 1: expected a number that a double can hold");
  EXPECT_EQ(refusal("not"), "at character 4: expected a number, a name or '(', found the end");
}

TEST(Expression, BoundsNesting) {
  const auto nested = [](const std::string& open, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += open;
    return text + "1";
  };
  EXPECT_EQ(value_of(nested("(", 20) + std::string(20, ')')), 1);
  for (const char* open : {"(", "-", "not ", "2 ** ", "min(1, "}) {
    EXPECT_NE(refusal(nested(open, 1'000'000)).find("nested more than 100 deep"), std::string::npos) << open;
  }
  // Operators of one level do not nest.
  std::string sum = "1";
  for (int i = 0; i < 10'000; ++i) sum += " + 1";
  EXPECT_EQ(value_of(sum), 10'001);
}

TEST(Expression, RefusesOrEvaluatesAnyText) {
  constexpr std::string_view letters = "ab.01e+-*/%<>=!()  ,andornot";
  const PhiloxKey key = stream_key(1, "texts");
  int accepted = 0;
  for (uint64_t text = 0; text < 20'000; ++text) {
    std::string random;
    const uint64_t size = philox_at(key, text, 0)[0] % 12;
    for (uint64_t i = 1; i <= size; ++i) random += letters[philox_at(key, text, i)[0] % letters.size()];
    try {
      const Expression expression(random);
      expression.evaluate(std::vector<double>(expression.names().size(), 2));
      ++accepted;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("at character "), std::string::npos) << random;
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace terrace::search
