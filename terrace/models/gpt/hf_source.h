// Reads the keys of a config.json of transformers.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace::models::gpt {

// A config.json as transformers reads it: a missing key has its default. null is a value of its own, which most keys
// cannot have; a boolean that is null counts as false. Keeps which keys were looked at.
class HfSource {
 public:
  HfSource(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  bool has(const char* key) const {
    asked_.insert(key);
    return json_.contains(key) && !json_.at(key).is_null();
  }

  // The keys that nothing has asked for and that say something.
  std::vector<std::string> unasked() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json_.items()) {
      const bool says_nothing = value.is_null() || value == false || value == Json::object() || value == Json::array();
      if (!says_nothing && !asked_.contains(key)) keys.push_back(key);
    }
    return keys;
  }

  template <typename Value>
  Value get(const char* key, std::optional<Value> missing = std::nullopt) const {
    asked_.insert(key);
    if (!json_.contains(key)) {
      if (missing) return *missing;
      throw UserError::of("{} has no {}", name_, key);
    }
    if (json_.at(key).is_null()) {
      if constexpr (std::is_same_v<Value, bool>) return false;
      throw UserError::of(
          "{}: {} = null; {}", name_, key,
          missing ? fmt::format("write {}, which a missing key means", Json(*missing).dump()) : "write its value");
    }
    try {
      return json_.at(key).get<Value>();
    } catch (const Json::exception&) {
      throw UserError::of("{}: {} = {} is of another kind than expected", name_, key, json_.at(key).dump());
    }
  }

  // Reads a key that may be null.
  template <typename Value>
  Value get(const char* key, Value missing, Value null) const {
    return json_.contains(key) && json_.at(key).is_null() ? null : get<Value>(key, missing);
  }

  // Checks a key of which terrace supports a single value.
  template <typename Value>
  void expect(const char* key, const Value& only) const {
    const Value found = get<Value>(key, only);
    if (found != only) {
      throw UserError::of("{}: {} = {}; terrace has {} only", name_, key, Json(found).dump(), Json(only).dump());
    }
  }

 private:
  const Json& json_;
  std::string name_;
  mutable std::set<std::string> asked_ = {};
};

// Keys that say nothing of what the model computes from its weights in evaluation, or that other parts of an import
// read: tokens of the tokenizer, how other programs store, divide and train models, and what they do with other heads.
const std::set<std::string>& hf_keys_without_effect();

}  // namespace terrace::models::gpt
