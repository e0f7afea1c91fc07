// Writes a struct as a TOML file of nested tables, from the statement of its keys that TableReader reads by.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "terrace/config/domain.h"

namespace terrace::config {

template <typename Struct>
class TableWriter {
 public:
  // `path` precedes the names of the tables below this one, as in "device.".
  TableWriter(std::string path, const Struct& value) : path_(std::move(path)), value_(value) {}

  const Struct& value() const { return value_; }
  // The keys of this table, then the tables below it.
  std::string text() const { return keys_ + tables_; }

  template <typename Field, typename Domain>
  void required(std::string_view key, Field field, const Domain& domain, std::string_view /*example*/) {
    keys_ += fmt::format("{} = {}\n", key, text_of(domain, std::invoke(field, value_)));
  }
  // Keys with their defaults are left out, and so are optional tables that have nothing else.
  template <typename Field, typename Domain>
  void optional(std::string_view key, Field field, const Domain& domain) {
    const Struct defaults{};
    if (!(std::invoke(field, value_) == std::invoke(field, defaults))) required(key, field, domain, "");
  }
  template <typename Field, typename Keys>
  void table(std::string_view key, Field field, const Keys& keys) {
    add_table(fmt::format("[{}{}]", path_, key), key, std::invoke(field, value_), keys);
  }
  template <typename Field, typename Keys>
  void optional_table(std::string_view key, Field field, const Keys& keys) {
    const Struct defaults{};
    if (!(std::invoke(field, value_) == std::invoke(field, defaults))) table(key, field, keys);
  }
  template <typename Field, typename Keys, typename Rules>
  void list(std::string_view key, Field field, const Keys& keys, const Rules& /*rules*/) {
    const Struct defaults{};
    const auto& values = std::invoke(field, value_);
    if (values == std::invoke(field, defaults)) return;
    for (const auto& one : values) add_table(fmt::format("[[{}{}]]", path_, key), key, one, keys);
  }
  template <typename Problem>
  void rule(std::initializer_list<std::string_view> /*keys*/, const Problem& /*problem*/) {}

 private:
  template <typename Domain, typename Value>
  static std::string text_of(const Domain& domain, const Value& value) {
    if constexpr (requires { domain.text(value); }) {
      return domain.text(value);
    } else {
      return toml_text(value);
    }
  }
  template <typename Value, typename Keys>
  void add_table(const std::string& heading, std::string_view key, const Value& value, const Keys& keys) {
    TableWriter<Value> writer(fmt::format("{}{}.", path_, key), value);
    keys(writer);
    tables_ += fmt::format("\n{}\n{}", heading, writer.text());
  }

  std::string path_;
  const Struct& value_;
  std::string keys_, tables_;
};

// The struct as TOML, which read_tables() reads back to an equal struct.
template <typename Struct, typename Keys>
std::string write_tables(const Struct& value, const Keys& keys) {
  TableWriter<Struct> writer("", value);
  keys(writer);
  return writer.text();
}

}  // namespace terrace::config
