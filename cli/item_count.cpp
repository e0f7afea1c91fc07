// Divides the text into a number and a letter.
#include "cli/item_count.h"

#include <cctype>
#include <map>

#include "terrace/base/error.h"
#include "terrace/search/study/value.h"

namespace terrace::cli {

double item_count_of(const std::string& flag, const std::string& text) {
  static const std::map<char, double> factors = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
  std::string digits = text;
  double factor = 1;
  const auto found = text.empty() ? factors.end() : factors.find(static_cast<char>(std::toupper(text.back())));
  if (found != factors.end()) {
    factor = found->second;
    digits.pop_back();
  }
  const double count = factor * search::parse_number(digits).value_or(0);
  if (count >= 1 && count <= 1e16) return count;
  throw UserError::of(
      "{} {} must be a number from 1 to 10000T, with nothing or K, M, B or T behind it, such as 300B or 15T", flag,
      text);
}

}  // namespace terrace::cli
