// The one interface of a family of models, in parts: docs/model.md. The rooms above define the types of all parts
// but the first. This room knows no family by name: the caller that reads a configuration passes the list of families.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/other_names.h"
#include "terrace/config/rules.h"

namespace terrace::schedule {
class Description;
}
namespace terrace::data {
class DataOfFamily;
}
namespace terrace::observe {
class Figures;
}
namespace terrace::models {
class ExchangeOfFamily;
class ForecastOfFamily;
class GraphsOfFamily;
class ModelOfFamily;
class TextOfFamily;
}  // namespace terrace::models

namespace terrace::config {

// Settings that the family adds to the configuration. All functions, also those of keys and rules, are called with
// configurations of this family only.
struct Settings {
  FamilySettings model = {}, data = {};  // the values of Config::model and Config::data before a key is read
  // The family's keys in [model], in [data] and, if any, in other tables, in the order of the page.
  std::vector<Key> keys = {};
  std::vector<Rule> rules = {};
  std::vector<IdleRule> idle_rules = {};
  std::vector<OtherName> other_names = {};  // what other programs call its keys
  // The keys of [data] that a phase may change, without their section.
  std::vector<std::string> phase_keys = {};
  // Replaces zeros that mean "derive it" by the derived values; may be null.
  void (*derive)(Config&) = nullptr;
  // Returns settings for a configuration in TOML that a checkpoint keeps, where a key that it lacks has another meaning
  // by now. With the settings it means what it did when it was written. May be null.
  std::vector<std::string> (*settings_of_earlier)(const std::string& toml) = nullptr;
  // The number of layers that layout.stage_layers divides among the stages. The model has one more unit before the
  // layers and one after them.
  int64_t (*layers)(const Config&) = nullptr;
  // Used by verify. Makes [model] so small that a laptop trains it in a moment, but keeps its kinds of layers and the
  // ratios of their sizes. The layout must still fit the model.
  void (*shrink)(Config&) = nullptr;
  // Used by rehearse. Makes the tensors of [model] as small as the layout allows, or about as wide as `width` (0: as
  // small as possible) where that is more, and keeps its layers and everything else that decides which units there are.
  // Null: the model stays as it is.
  void (*narrow)(Config&, int64_t width) = nullptr;
  // Whether each data-parallel rank takes the same number of samples, in micro-batches of train.micro_batch samples. If
  // not, the family's data source decides how to divide a step's samples among the ranks.
  bool equal_shares = true;
  // Whether the positions of a sample can be cut over ranks (layout.context): schedule::Description::context_work()
  // and data::DataOfFamily::cut_positions() then say how.
  bool cuts_positions = false;
  // Whether models of the family may have experts, which layout.experts divides.
  bool has_experts = false;
  // The names of those sizes of a micro-batch that do not follow from its number of samples, such as atoms and edges:
  // of a family without equal shares. train.micro_batch_sizes may limit them; schedule::Description::sample_sizes() and
  // every data::MicroBatch state them.
  std::vector<std::string> sizes = {};
};

struct Family {
  std::string name;   // the value of model.family
  std::string about;  // a sentence for the page of keys
  // The words by which messages and metrics call the family's samples, and the items that it counts in them.
  std::string samples = "samples", items = "samples";

  Settings settings;
  // Parts that a program lacks are null: a planner builds no models and reads no data.
  const schedule::Description* description = nullptr;  // schedule/description.h
  const observe::Figures* figures = nullptr;           // observe/figures.h
  const models::ModelOfFamily* model = nullptr;        // models/families.h
  const data::DataOfFamily* data = nullptr;            // data/data_of_family.h
  // Parts that a family may lack in every program: null if its models generate no text, if no other program has a
  // layout for them, if they forecast no fields, or if they predict no properties of graphs.
  const models::TextOfFamily* text = nullptr;          // models/text_of_family.h
  const models::ExchangeOfFamily* exchange = nullptr;  // models/exchange_of_family.h
  const models::ForecastOfFamily* forecast = nullptr;  // models/forecast_of_family.h
  const models::GraphsOfFamily* graphs = nullptr;      // models/graphs_of_family.h
};

// The commands of this program that take a checkpoint of the family, for messages: "terrace evaluate or export".
std::string commands_of(const Family& family);

// nullptr if no family has the name.
const Family* find_family(const Families& families, std::string_view name);

// The keys of the family and those that every configuration has, in the order of the page, section by section. If
// `family` is null, model.family is the only key of [model] and [data].
std::vector<Key> keys_of(const Family* family);
std::vector<IdleRule> idle_rules_of(const Family* family);

// An empty configuration of the family, with its defaults.
Config config_of(const Family& family);

}  // namespace terrace::config
