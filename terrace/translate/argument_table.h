// The rows of a table that says what the arguments of another program mean here, and the reader that applies them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/translate/arguments.h"
#include "terrace/translate/translation.h"

namespace terrace::translate {

enum class Meaning {
  count,      // a whole number of at least 1, which is the value of `key`
  whole,      // one of at least 0
  real,       // a number of at least 0
  word,       // a word that `about` translates: "cosine=cosine|WSD=wsd"
  text,       // a text
  flag,       // without a value; `key` becomes `about`
  boolean,    // true or false
  opposite,   // false or true
  part,       // one of several arguments that together make `key`; the program's file has the rule
  no_effect,  // on the time and the result
  no_twin,    // it changes the time or the rounding, and no key does the same; `about` says what is planned instead
  refused,    // it changes the model or the result, and no key does the same; `about` says how, and what to do
};

struct Row {
  std::string_view name;  // may end with *, which stands for any rest
  Meaning meaning;
  std::string_view key = "";  // refused: an override of this key takes the argument's place
  std::string_view about = "";
  std::string_view harmless = "";  // refused: values that change nothing, "1|none"
};

// How messages write a name: "--num-layers", "[training] seq_len".
enum class Spelling { option, path };

// Reads the arguments of one program and builds the translation. Problems are collected, so that all are said at once.
class ArgumentReader {
 public:
  // Applies the rows. Of two rows that match a name the first counts.
  ArgumentReader(std::vector<Argument> arguments, std::span<const Row> table, Spelling spelling, const Wishes& wishes,
                 Translation& translation, std::vector<std::string>& problems);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool has_any(std::initializer_list<std::string_view> names) const;
  // The argument as messages repeat it; "" if it is not given.
  std::string text(std::string_view name) const;
  // The value of an argument; nothing if it is not given, or with a problem if it has another number of values or not
  // such a one.
  std::optional<std::string> word(std::string_view name);
  std::optional<int64_t> whole(std::string_view name, int64_t least = 1);
  std::optional<double> real(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::vector<std::string> words(std::string_view name) const;

  // Sets a key. Another value that an argument gave is a problem; one that was a default is replaced.
  void set(std::string_view key, const std::string& value, std::string_view argument);
  // Sets a key that no argument gave to what the other program does by itself, if our own default may differ.
  void set_default(std::string_view key, const std::string& value, std::string_view argument);
  // Adds a problem that was not said before.
  void problem(std::string text);
  // The problem of an argument that has no twin, unless `key` is given by an override.
  void refuse(std::string_view name, std::string_view about, std::string_view key = "");
  // The problem of a required value that no argument gives, unless an override of `key` does.
  void require(std::string_view key, std::string_view argument);
  void assume(std::string text) { translation_.assumptions.push_back(std::move(text)); }
  void remark(std::string_view name, std::string_view about);
  // Ends the reading: lists the parts that no setting, remark or assumption names as agreeing with the others, and puts
  // the settings into the order of a configuration.
  void finish();
  const Wishes& wishes() const { return wishes_; }

 private:
  const Argument* find(std::string_view name) const;
  const Row* row_of(std::string_view name) const;
  void apply(const Argument& argument, const Row& row);
  void apply_refused(const Argument& argument, const Row& row);
  void apply_word(const Argument& argument, const Row& row);
  std::string written(std::string_view name) const;
  std::optional<int64_t> whole_of(const Argument& argument, int64_t least);
  std::optional<double> real_of(const Argument& argument);
  std::optional<std::string> word_of(const Argument& argument);
  std::optional<bool> boolean_of(const Argument& argument);

  std::vector<Argument> arguments_;  // without those that are left out
  std::span<const Row> table_;
  Spelling spelling_;
  const Wishes& wishes_;
  Translation& translation_;
  std::vector<std::string>& problems_;
};

}  // namespace terrace::translate
