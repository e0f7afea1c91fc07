// What a family of models adds to the configuration. This room knows no family by name: the caller that reads a
// configuration passes the list of families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"

namespace terrace::config {

struct Family {
  virtual ~Family() = default;

  std::string name;   // the value of model.family
  std::string about;  // a sentence for the page of keys
  // What messages and metrics call the family's samples, the items that it counts in them, and the unit of its loss.
  std::string samples = "samples", items = "samples", loss_unit = "";
  FamilySettings model, data;  // the values of Config::model and Config::data before a key is read
  // The family's keys in [model], in [data] and, if any, in other tables, in the order of the page. The functions of
  // keys and rules are called with configurations of this family only.
  std::vector<Key> keys = {};
  std::vector<Rule> rules = {};
  std::vector<IdleRule> idle_rules = {};
  // The keys of [data] that a phase may change, without their section.
  std::vector<std::string> phase_keys = {};
  // Replaces zeros that mean "derive it" by the derived values; may be null.
  void (*derive)(Config&) = nullptr;
  // The number of layers that layout.stage_layers divides among the stages. The model has one more unit before the
  // layers and one after them.
  int64_t (*layers)(const Config&) = nullptr;
  // Whether each data-parallel rank takes the same number of samples, in micro-batches of train.micro_batch samples. If
  // not, the family's data source decides how to divide a step's samples among the ranks.
  bool equal_shares = true;
};

// nullptr if no family has the name.
const Family* find_family(const Families& families, std::string_view name);

// The keys of the family and those that every configuration has, in the order of the page, section by section. If
// `family` is null, model.family is the only key of [model] and [data].
std::vector<Key> keys_of(const Family* family);
std::vector<IdleRule> idle_rules_of(const Family* family);

// An empty configuration of the family, with its defaults.
Config config_of(const Family& family);

}  // namespace terrace::config
