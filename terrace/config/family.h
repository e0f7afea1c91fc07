// What a family of models adds to the configuration. This room knows no family by name: whoever reads a configuration
// says which families there are.
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
  // What messages and metrics call its samples, what it counts in them, and the unit of its loss.
  std::string samples = "samples", items = "samples", loss_unit = "";
  FamilySettings model, data;  // what Config::model and Config::data hold before a key is read
  // Its keys, in the order of the page: those of [model], of [data] and, where it has them, of other tables. Their
  // functions and those of the rules are called with configurations of this family.
  std::vector<Key> keys = {};
  std::vector<Rule> rules = {};
  std::vector<IdleRule> idle_rules = {};
  // Replaces zeros that mean "derive it" by their values; may be null.
  void (*derive)(Config&) = nullptr;
  // Layers of the model, which layout.stage_layers shares out. There is one unit before and one after them.
  int64_t (*layers)(const Config&) = nullptr;
  // Whether each data-parallel rank takes the same number of samples, in micro-batches of train.micro_batch samples.
  // Otherwise the family's data source divides a step's samples among the ranks in its own way.
  bool equal_shares = true;
};

// nullptr where there is none of that name.
const Family* find_family(const Families& families, std::string_view name);

// The keys of the family and those that every configuration has, in the order of the page; keys of one section stand
// together. Without a family those of [model] and [data] are left out, all but model.family.
std::vector<Key> keys_of(const Family* family);
std::vector<IdleRule> idle_rules_of(const Family* family);

// An empty configuration of the family, with its defaults.
Config config_of(const Family& family);

}  // namespace terrace::config
