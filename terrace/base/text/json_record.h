// Records: structs that state their members once, for both the JSON that is written and the JSON that is read.
//
// A record's members_of() lies in the namespace of the struct and names each key in the order in which it is written:
//
//   void members_of(auto& json, MaybeConst<Moments> auto& one) { json("mean", one.mean)("deviation", one.deviation); }
//
// Then json_of_record(moments) writes a record, and record_of<Moments>(json) reads one. A member may itself be a
// record, a vector (also of optional ones) or a map of records, or std::optional, which is null without a value.
// Reading throws Json::exception where a key is missing or has another type. Unknown keys are ignored.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace {

template <typename Type, typename Record>
concept MaybeConst = std::same_as<std::remove_const_t<Type>, Record>;

// The members of a record in JSON that is written, or in const Json that is read.
template <typename AnyJson>
class JsonMembers {
 public:
  static constexpr bool writes = !std::is_const_v<AnyJson>;

  explicit JsonMembers(AnyJson& json) : json_(json) {}

  JsonMembers& operator()(const char* key, auto& value) {
    convert(at(key), value);
    return *this;
  }
  // Whether the key is there. A record that is written has it if `is_written`.
  bool has(const char* key, bool is_written) const { return writes ? is_written : json_.contains(key); }
  // A member whose key is absent where its value is the one that its type begins with. Returns whether the key is
  // there.
  template <typename Value>
  bool optional(const char* key, Value& value) {
    const bool is_there = has(key, value != std::remove_const_t<Value>{});
    if (!is_there) return false;
    if constexpr (requires {
                    value.emplace();
                    *value;
                  }) {
      (*this)(key, value.emplace());  // null is refused
    } else {
      (*this)(key, value);
    }
    return true;
  }
  // A member that is written as write(value), and is the value of read(json).
  JsonMembers& as(const char* key, auto& value, const auto& write, const auto& read) {
    if constexpr (writes) {
      json_[key] = std::invoke(write, value);
    } else {
      value = read(json_.at(key));
    }
    return *this;
  }
  // An enumeration that is written as words[value]. Another word throws UserError, whose text begins with `refusal`.
  template <typename Enum>
  JsonMembers& word(const char* key, Enum& value, std::span<const std::string_view> words, const char* refusal) {
    AnyJson& json = at(key);
    if constexpr (writes) {
      json = words[static_cast<size_t>(value)];
    } else {
      const auto word = std::ranges::find(words, json.template get<std::string>());
      if (word == words.end()) throw UserError::of("{} {}", refusal, json.dump());
      value = static_cast<Enum>(word - words.begin());
    }
    return *this;
  }
  // Members that lie in an object of their own: members(json) states them.
  JsonMembers& object(const char* key, const auto& members) {
    JsonMembers inner(at(key));
    members(inner);
    return *this;
  }

 private:
  AnyJson& at(const char* key) {
    if constexpr (writes) {
      return json_[key];
    } else {
      return json_.at(key);
    }
  }

  static void convert(AnyJson& json, auto& value) {
    JsonMembers inner(json);
    if constexpr (requires { members_of(inner, value); }) {
      if constexpr (writes) json = Json::object();
      members_of(inner, value);
    } else if constexpr (requires { value.has_value(); }) {
      if constexpr (writes) {
        if (value) convert(json, *value);
      } else if (json.is_null()) {
        value.reset();
      } else {
        convert(json, value.emplace());
      }
    } else if constexpr (requires { members_of(inner, value.begin()->second); }) {
      if constexpr (writes) {
        json = Json::object();
        for (const auto& [key, one] : value) convert(json[key], one);
      } else {
        for (const auto& [key, one] : json.items()) convert(one, value[key]);
      }
    } else if constexpr (
        requires { members_of(inner, *value.begin()); } || requires { members_of(inner, **value.begin()); }) {
      if constexpr (writes) {
        json = Json::array();
        for (const auto& one : value) convert(json.emplace_back(), one);
      } else {
        for (const Json& one : json) convert(one, value.emplace_back());
      }
    } else if constexpr (writes) {
      json = value;
    } else {
      json.get_to(value);
    }
  }

  AnyJson& json_;
};

template <typename Record>
Json json_of_record(const Record& record) {
  Json json = Json::object();
  JsonMembers<Json> members(json);
  members_of(members, record);
  return json;
}

template <typename Record>
Record record_of(const Json& json) {
  Record record = {};
  JsonMembers<const Json> members(json);
  members_of(members, record);
  return record;
}

}  // namespace terrace
