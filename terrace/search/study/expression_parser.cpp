// Parses expressions by recursive descent, one function for each level of binding.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/domain.h"
#include "terrace/search/study/expression.h"

namespace terrace::search {

class ExpressionParser {
 public:
  using Operation = Expression::Operation;

  explicit ExpressionParser(Expression& expression) : text_(expression.text_), expression_(expression) { next(); }

  void parse() {
    disjunction();
    if (!token_.empty()) refuse(begin_, "expected an operator or the end, found " + found());
  }

 private:
  struct Function {
    std::string_view name;
    size_t least, most;  // number of arguments
    Operation operation;
  };
  static constexpr size_t any_number = 1000;
  static constexpr std::array functions = {Function{"min", 2, any_number, Operation::minimum},
                                           Function{"max", 2, any_number, Operation::maximum},
                                           Function{"floor", 1, 1, Operation::floor},
                                           Function{"ceil", 1, 1, Operation::ceil},
                                           Function{"log2", 1, 1, Operation::log2},
                                           Function{"divides", 2, 2, Operation::divides}};
  using Operators = std::initializer_list<std::pair<std::string_view, Operation>>;

  // One more level of parentheses, functions, signs or powers, which are the only recursion.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : depth_(parser.depth_) {
      constexpr int most = 100;
      if (++depth_ > most) parser.refuse(parser.begin_, fmt::format("nested more than {} deep", most));
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;

   private:
    int& depth_;
  };

  [[noreturn]] void refuse(size_t where, const std::string& problem) const {
    throw UserError::of("at character {}: {}", where + 1, problem);
  }

  std::string found() const { return token_.empty() ? "the end" : fmt::format("'{}'", token_); }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  static bool is_word(std::string_view token) {
    return !token.empty() && begins_name(token[0]) && token != "and" && token != "or" && token != "not";
  }

  // Reads the next token: a number, a name or word, an operator; "" at the end.
  void next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    begin_ = at_;
    if (at_ < text_.size()) at_ += length_of_token(std::string_view(text_).substr(at_));
    token_ = std::string_view(text_).substr(begin_, at_ - begin_);
  }

  size_t length_of_token(std::string_view rest) const {
    if (begins_name(rest[0])) {
      size_t size = 1;
      while (size < rest.size() && (begins_name(rest[size]) || is_digit(rest[size]) || rest[size] == '.')) ++size;
      return size;
    }
    if (is_digit(rest[0]) || rest[0] == '.') {
      double number = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
      const auto size = static_cast<size_t>(end - rest.data());
      if (error != std::errc() || !std::isfinite(number)) refuse(at_, "expected a number that a double can hold");
      if (size < rest.size() && (begins_name(rest[size]) || rest[size] == '.')) {
        refuse(at_ + size, fmt::format("expected an operator after {}", rest.substr(0, size)));
      }
      return size;
    }
    for (const std::string_view two : {"**", "//", "<=", ">=", "==", "!="}) {
      if (rest.starts_with(two)) return 2;
    }
    if (rest[0] == '=') refuse(at_, "'=' is no operator; write ==");
    constexpr std::string_view ones = "+-*/%<>(),";
    if (ones.find(rest[0]) == std::string_view::npos) {
      const bool printable = std::isprint(static_cast<unsigned char>(rest[0])) != 0;
      refuse(at_, printable ? fmt::format("'{}' is no operator; there are + - * / // % ** < <= > >= == !=, and, or, "
                                          "not",
                                          rest[0])
                            : std::string("a character that belongs to no expression"));
    }
    return 1;
  }

  bool take(std::string_view token) {
    if (token_ != token) return false;
    next();
    return true;
  }
  void require(std::string_view token, std::string_view instead) {
    if (!take(token)) refuse(begin_, fmt::format("expected {}, found {}", instead, found()));
  }
  void add(Operation operation, double number = 0, size_t slot = 0) {
    expression_.steps_.push_back({operation, number, slot});
  }

  template <typename Operand>
  void from_left(Operators operators, const Operand& operand) {
    operand();
    while (true) {
      const auto* one = std::ranges::find(operators, token_, &Operators::value_type::first);
      if (one == operators.end()) return;
      next();
      operand();
      add(one->second);
    }
  }

  void disjunction() {
    const Nesting nesting(*this);
    from_left({{"or", Operation::logical_or}}, [this] { conjunction(); });
  }
  void conjunction() {
    from_left({{"and", Operation::logical_and}}, [this] { negation(); });
  }
  void negation() {
    if (token_ != "not") return comparison();
    const Nesting nesting(*this);
    next();
    negation();
    add(Operation::logical_not);
  }
  void comparison() {
    static constexpr std::array<std::pair<std::string_view, Operation>, 6> operators = {
        {{"<", Operation::less},
         {"<=", Operation::less_equal},
         {">", Operation::greater},
         {">=", Operation::greater_equal},
         {"==", Operation::equal},
         {"!=", Operation::not_equal}}};
    const auto find = [&] { return std::ranges::find(operators, token_, [](const auto& one) { return one.first; }); };
    sum();
    const auto* one = find();
    if (one == operators.end()) return;
    next();
    sum();
    add(one->second);
    if (find() != operators.end()) refuse(begin_, "comparisons are not chained; write a < b and b < c");
  }
  void sum() {
    from_left({{"+", Operation::add}, {"-", Operation::subtract}}, [this] { product(); });
  }
  void product() {
    from_left({{"*", Operation::multiply},
               {"/", Operation::divide},
               {"//", Operation::floor_divide},
               {"%", Operation::modulo}},
              [this] { sign(); });
  }
  void sign() {
    const Nesting nesting(*this);
    if (take("-")) {
      sign();
      add(Operation::negate);
    } else if (take("+")) {
      sign();
    } else {
      power();
    }
  }
  void power() {
    operand();
    if (!take("**")) return;
    sign();
    add(Operation::power);
  }
  void operand() {
    if (take("(")) {
      disjunction();
      return require(")", "')'");
    }
    if (!token_.empty() && (is_digit(token_[0]) || token_[0] == '.')) {
      double number = 0;
      std::from_chars(token_.data(), token_.data() + token_.size(), number);
      add(Operation::number, number);
      return next();
    }
    if (!is_word(token_)) refuse(begin_, "expected a number, a name or '(', found " + found());
    const std::string name(token_);
    const size_t where = begin_;
    next();
    if (token_ == "(") return call(name, where);
    const auto known = std::ranges::find(expression_.names_, name);
    add(Operation::name, 0, static_cast<size_t>(known - expression_.names_.begin()));
    if (known == expression_.names_.end()) expression_.names_.push_back(name);
  }

  void call(const std::string& name, size_t where) {
    const auto* function = std::ranges::find(functions, name, &Function::name);
    if (function == functions.end()) refuse(where, unknown_function(name));
    next();
    size_t count = 0;
    do {
      disjunction();
      // Functions with more than two arguments take them two at a time.
      if (++count > 1) add(function->operation);
    } while (take(","));
    if (count == 1 && function->most == 1) add(function->operation);
    require(")", "',' or ')'");
    if (count >= function->least && count <= function->most) return;
    const std::string wanted =
        function->most == any_number ? fmt::format("{} or more", function->least) : std::to_string(function->most);
    refuse(where, fmt::format("{} takes {} argument{}, not {}", name, wanted, function->most == 1 ? "" : "s", count));
  }

  static std::string unknown_function(const std::string& name) {
    std::vector<std::string> names;
    for (const Function& function : functions) names.emplace_back(function.name);
    const std::string nearest = nearest_word(name, names);
    return fmt::format("there is no function {}; ", name) +
           (nearest.empty() ? "there are " + config::listed(names, "and") : fmt::format("did you mean {}?", nearest));
  }

  const std::string& text_;
  Expression& expression_;
  size_t at_ = 0, begin_ = 0;  // behind the token, of the token
  std::string_view token_;
  int depth_ = 0;
};

Expression::Expression(std::string text) : text_(std::move(text)) { ExpressionParser(*this).parse(); }

}  // namespace terrace::search
