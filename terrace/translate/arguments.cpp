// Turns words and nested tables into one list of arguments.
#include "terrace/translate/arguments.h"

#include <algorithm>
#include <cctype>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/config/domain.h"

namespace terrace::translate {
namespace {

// "--num-layers", but neither "-1" nor "-.5".
bool begins_argument(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0);
}

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A number has the fewest digits that read back as the same one.
std::string shown(const toml::node& node) {
  const auto* number = node.as_floating_point();
  return number != nullptr ? config::toml_text(number->get()) : config::shown(node);
}

std::string plain(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  return shown(node);
}

// A file lists defaults too: "auto", an empty text and an empty list mean that nothing is given.
bool is_given(const Argument& argument) {
  if (argument.values.empty()) return false;
  return argument.values.size() > 1 || (argument.values.front() != "auto" && !argument.values.front().empty());
}

void add(const Json& value, const std::string& path, std::vector<Argument>& list) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) add(member, path.empty() ? key : path + "." + key, list);
    return;
  }
  if (value.is_null()) return;
  Argument argument{.name = path, .values = {}, .text = path + " = " + plain(value)};
  if (value.is_array()) {
    for (const Json& element : value) argument.values.push_back(plain(element));
  } else {
    argument.values.push_back(plain(value));
  }
  if (is_given(argument)) list.push_back(argument);
}

void add(const toml::table& table, const std::string& path, std::vector<Argument>& list) {
  for (const auto& [key, node] : table) {
    const std::string name = path.empty() ? std::string(key.str()) : path + "." + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      add(*inner, name, list);
      continue;
    }
    Argument argument{.name = name, .values = {}, .text = name + " = "};
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) {
        argument.text += (argument.values.empty() ? "[" : ", ") + shown(element);
        argument.values.push_back(plain(element));
      }
      argument.text += "]";
    } else {
      argument.text += shown(node);
      argument.values.push_back(plain(node));
    }
    if (is_given(argument)) list.push_back(argument);
  }
}

}  // namespace

std::vector<Argument> arguments_of(const std::vector<std::string>& words, std::string_view source) {
  std::vector<Argument> list;
  for (const std::string& word : words) {
    if (!begins_argument(word)) {
      if (list.empty()) {
        throw UserError::of("{}: {} stands before the first argument; arguments begin with --, such as --num-layers 96",
                            source, config::toml_text(std::string_view(word)));
      }
      list.back().values.push_back(word);
      list.back().text += " " + word;
      continue;
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    Argument argument{.name = "", .values = {}, .text = name};
    name.erase(0, name.find_first_not_of('-'));
    std::ranges::replace(name, '_', '-');
    argument.name = name;
    if (equals != std::string::npos) {
      argument.values.push_back(word.substr(equals + 1));
      argument.text += " " + argument.values.back();
    }
    list.push_back(argument);
  }
  return list;
}

std::vector<Argument> arguments_of(const Json& object) {
  std::vector<Argument> list;
  add(object, "", list);
  return list;
}

std::vector<Argument> arguments_of(const toml::table& table) {
  std::vector<Argument> list;
  add(table, "", list);
  return list;
}

}  // namespace terrace::translate
