// Defines which values a key may have: one small struct for each kind of value, which reads it from TOML, writes it as
// TOML and describes it. read() returns the problem as the end of a sentence that begins with "KEY = VALUE", or "" if
// the value was stored.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/text/sizes.h"
#include "terrace/config/names.h"

namespace terrace::config {

// The numbers of a small table, by name.
using NamedNumbers = std::map<std::string, double>;
using StepRanges = std::vector<std::pair<int64_t, int64_t>>;

// The TOML text of a value; parsing the text gives the same value bit for bit.
std::string toml_text(bool value);
std::string toml_text(int64_t value);
std::string toml_text(uint64_t value);  // at most 2^63 - 1, the largest integer in TOML
std::string toml_text(double value);
std::string toml_text(std::string_view value);
std::string toml_text(const std::pair<int64_t, int64_t>& range);
std::string toml_text(const std::vector<std::string>& values);
std::string toml_text(const std::vector<double>& values);
std::string toml_text(const std::vector<int64_t>& values);
std::string toml_text(const StepRanges& values);
std::string toml_text(const NamedNumbers& values);  // on one line
std::string toml_text(const Sizes& values);         // on one line
std::string toml_text(const ShardGroup& group);
std::string toml_text(const RecomputeLayers& layers);
template <typename Enum>
requires std::is_enum_v<Enum> std::string toml_text(Enum value) { return toml_text(name_of(value)); }

// Any TOML value as one short line, for messages.
std::string shown(const toml::node& node);

// "1, 2, 4 or 8".
std::string listed(const std::vector<std::string>& words, std::string_view last = "or");

struct Whole {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int64_t>::max();

  std::string description() const;
  std::string read(const toml::node& node, int64_t& value) const;
  std::string read(const toml::node& node, uint64_t& value) const;
};

struct Real {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;

  std::string description() const;
  std::string read(const toml::node& node, double& value) const;
};

// A length of time in seconds: a number, or a string such as "1h30m" of days, hours, minutes and seconds.
struct Duration {
  std::string description() const { return "seconds, or a string such as \"1h30m\""; }
  std::string read(const toml::node& node, double& seconds) const;
};

// The seconds of such a string; no value where it is none.
std::optional<double> parse_duration(std::string_view text);

struct Flag {
  std::string description() const { return "true or false"; }
  std::string read(const toml::node& node, bool& value) const;
};

struct Text {
  bool may_be_empty = false;

  std::string description() const { return may_be_empty ? "a string" : "a string that is not empty"; }
  std::string read(const toml::node& node, std::string& value) const;
};

// One string of a list.
struct Word {
  std::vector<std::string> words;

  std::string description() const;
  std::string read(const toml::node& node, std::string& value) const;
};

// Stores the index of the string among the words; Choice converts it to an enumerator.
std::string read_word(const toml::node& node, const std::vector<std::string>& words, size_t& index);

template <typename Enum>
struct Choice {
  static std::vector<std::string> words() { return {Names<Enum>::words.begin(), Names<Enum>::words.end()}; }

  std::string description() const { return Word{words()}.description(); }
  std::string read(const toml::node& node, Enum& value) const {
    size_t index = 0;
    std::string problem = read_word(node, words(), index);
    if (problem.empty()) value = static_cast<Enum>(index);
    return problem;
  }
};

// All of the words, each once, in any order.
struct OrderOf {
  std::vector<std::string> words;

  std::string description() const;
  std::string read(const toml::node& node, std::vector<std::string>& values) const;
};

// Prefixes of .bin/.idx pairs.
struct Prefixes {
  bool may_be_empty = false;

  std::string description() const { return "a list of file prefixes"; }
  std::string read(const toml::node& node, std::vector<std::string>& values) const;
};

// Strings, each at most once; if there are words, some of them.
struct Texts {
  std::vector<std::string> words = {};
  bool may_be_empty = false;

  std::string description() const;
  std::string read(const toml::node& node, std::vector<std::string>& values) const;
};

// Lengths of time in seconds, each written as Duration reads it.
struct Durations {
  bool may_be_empty = false;

  std::string description() const { return "a list of seconds or strings such as \"6h\""; }
  std::string read(const toml::node& node, std::vector<double>& seconds) const;
};

// A small table with a number for each name, such as {t2m = 1.0, u10 = 0.1}; if there are words, for some of them.
struct NumbersByName {
  Real number = {};
  std::vector<std::string> words = {};

  std::string description() const;
  std::string read(const toml::node& node, NamedNumbers& values) const;
};

// A small table with a whole number for each name, such as {atoms = 2048, edges = 65536}; if there are words, for some
// of them.
struct SizesByName {
  Whole number = {};
  std::vector<std::string> words = {};

  std::string description() const;
  std::string read(const toml::node& node, Sizes& values) const;
};

struct PositiveReals {
  std::string description() const { return "a list of numbers above 0"; }
  std::string read(const toml::node& node, std::vector<double>& values) const;
};

struct WholeNumbers {
  std::string description() const { return "a list of whole numbers"; }
  std::string read(const toml::node& node, std::vector<int64_t>& values) const;
};

struct Ranges {
  std::string description() const { return "a list of pairs [first, last]"; }
  std::string read(const toml::node& node, StepRanges& values) const;
};

// A ShardGroup: a word or a number of ranks.
struct GroupOfRanks {
  std::string description() const;
  std::string read(const toml::node& node, ShardGroup& group) const;
};

// A RecomputeLayers: a word, a number of layers, or a list with a number for each stage.
struct LayersOfStages {
  std::string description() const;
  std::string read(const toml::node& node, RecomputeLayers& layers) const;
};

}  // namespace terrace::config
