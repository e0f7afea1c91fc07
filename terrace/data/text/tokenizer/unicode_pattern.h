// A regular expression over Unicode text, as tokenizer.json names them, that cuts text into its matches and what lies
// between.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace terrace::data {

// Safe to share between threads, each with a Matcher of its own.
class UnicodePattern {
 public:
  // Throws UserError, naming `file_name`, for what is no valid expression.
  UnicodePattern(const std::string& expression, const std::string& file_name);

  // Where one thread's matches are kept.
  class Matcher {
   public:
    explicit Matcher(const UnicodePattern& pattern);

    // The pieces of valid UTF-8, in order, none of them empty; together they are the text.
    void split(std::string_view text, const std::function<void(std::string_view)>& piece);

   private:
    std::shared_ptr<const pcre2_real_code_8> code_;
    std::shared_ptr<pcre2_real_match_data_8> found_;
  };

 private:
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace terrace::data
