// The configuration that a launch of another trainer becomes, with what was understood of its arguments.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::translate {

// The user's own words beside the launch that is translated.
struct Wishes {
  std::vector<std::string> overrides = {};  // "model.positions=rotary", as for config::parse()
  std::vector<std::string> left_out = {};   // names of arguments that count as not given, such as "embed-layernorm"
  int64_t devices = 0;                      // 0: not given

  bool gives(std::string_view key) const;  // whether an override gives it
};

// A key of ours with its value as TOML, and the argument, or the default of the other program, that it is from.
struct Setting {
  std::string argument, key, value;
  bool is_default = false;
  bool is_replaced = false;  // by an override of the user
};

// An argument of the other program without a key here.
struct Remark {
  std::string argument, about;
};

struct Translation {
  std::string program;                           // "Megatron-LM"
  std::string software = {}, why_software = {};  // a built-in description, and the reason for it
  int64_t devices = 0;                           // that the launch is for, or the fewest; 0: unknown
  std::vector<Setting> settings = {};            // at most one for each key
  std::vector<Remark> no_twin = {};              // arguments that change the time or the rounding, and have no key here
  std::vector<std::string> agreeing = {};        // arguments that others imply, such as a number of positions
  std::vector<std::string> without_effect = {};  // on the time and the result
  std::vector<std::string> unknown = {};         // arguments in no table
  std::vector<std::string> left_out = {};        // as wished
  std::vector<std::string> assumptions = {};     // sentences

  // The value of a key as TOML; "" if the translation has none.
  std::string value_of(std::string_view key) const;
  // The value of a key that is a whole number; `missing` where the translation has none.
  int64_t whole_value(std::string_view key, int64_t missing) const;
};

// The settings as a configuration in TOML.
std::string toml_of(const Translation& translation);
// The settings as overrides, "train.micro_batch=2", for config::load().
std::vector<std::string> overrides_of(const Translation& translation);

// a * b, or the largest number if that is more; a and b are at least 0.
int64_t product(int64_t a, int64_t b);

}  // namespace terrace::translate
