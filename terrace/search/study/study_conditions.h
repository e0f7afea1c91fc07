// The keys `when` of SPACE.toml: under which conditions a parameter exists.
#pragma once

#include <toml++/toml.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "terrace/config/table_reader.h"
#include "terrace/search/study/space.h"

namespace terrace::search {

class ConditionReader {
 public:
  // The file outlives the reader and takes all problems.
  explicit ConditionReader(config::TableFile& file) : file_(&file) {}

  // Reads the key `when` of a parameter's table into parameter.when: { NAME = VALUE, NAME = [VALUE, VALUE] }, where a
  // NAME with a dot may be one key or tables. `is_valid` says whether the other keys of the table are.
  void read(const toml::table& table, bool is_valid, Parameter& parameter);
  // Called once all parameters were read. Checks that every condition names another parameter of the file that has
  // values or is an integer, and values of it; no parameter depends on itself; and each parameter can exist.
  void check(const std::vector<Parameter>& parameters);

  // The parameters that conditions name.
  const std::set<std::string>& names() const { return names_; }

 private:
  struct Place {
    std::string parameter;
    size_t condition = 0;  // in its list
    toml::source_region where;
  };
  using Values = std::map<std::string, std::vector<Value>>;  // by parameter

  void read_below(const toml::table& table, const std::string& path, Parameter& parameter);
  std::string naming_problem(const Place& place, const std::vector<Parameter>& parameters) const;
  std::string values_problem(const Condition& condition, const Parameter& named) const;
  std::string emptied_by(const Parameter& parameter, const std::vector<Parameter>& parameters, Values& left) const;
  void refuse(const toml::source_region& where, const std::string& parameter, const std::string& problem);

  config::TableFile* file_;
  std::vector<Place> places_;
  std::set<std::string> names_, invalid_;  // invalid_: parameters whose other keys are not valid
  bool has_problem_ = false;
};

// The parameters and derived numbers that do not exist at some points. `derived` is in the order of Space.
std::set<std::string> sometimes_missing(const std::vector<Parameter>& parameters, const std::vector<Derived>& derived);

}  // namespace terrace::search
