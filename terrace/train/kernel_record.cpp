// Writes, reads and compares the record of what a run computes with.
#include "terrace/train/kernel_record.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "terrace/ops/products/products.h"

namespace terrace::train {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Json products_record(const KernelFacts& facts) {
  Json record;
  std::set<std::string> names;
  for (const ops::WeightClass weights : ops::weight_classes) {
    for (const ops::NamedProduct& product : ops::named_products) {
      const ops::Products chosen = facts.choice.products[weights].*product.choice;
      const std::string name = ops::products_instructions(facts.device, facts.type, chosen);
      record[std::string(ops::name_of(weights))][std::string(product.name)] = name;
      names.insert(name);
    }
  }
  return names.size() == 1 ? Json(*names.begin()) : record;
}

// The value of the key in an object; a name of kernels is the value of every key.
Json value_of(const Json& record, std::string_view key) {
  return record.is_object() ? record.value(std::string(key), Json()) : record;
}

ops::ProductsByClass recorded_products(const Json& record) {
  ops::ProductsByClass products;
  for (const ops::WeightClass weights : ops::weight_classes) {
    for (const ops::NamedProduct& product : ops::named_products) {
      const bool torch = value_of(value_of(record, ops::name_of(weights)), product.name) == "torch";
      products[weights].*product.choice = torch ? ops::Products::torch : ops::Products::own;
    }
  }
  return products;
}

void add_differences(const std::string& key, const Json& saved, const Json& now, std::string& text) {
  if (saved == now) return;
  if (!saved.is_object() && !now.is_object()) {
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", key, saved.dump(), now.dump());
    return;
  }
  for (const auto& item : (now.is_object() ? now : saved).items()) {
    add_differences(key + "." + item.key(), value_of(saved, item.key()), value_of(now, item.key()), text);
  }
}

}  // namespace

Json kernel_record(const KernelFacts& facts) {
  const bool own_attention = facts.choice.attention == ops::AttentionChoice::fastest;
  Json record = {{"threads", facts.threads},
                 {"micro_batch", facts.micro_batch},
                 {"ranks", facts.ranks},
                 {"device", facts.device.str()},
                 {"processor", processor_name()},
                 {"vector_instructions", at::get_cpu_capability()},
                 {"products", products_record(facts)},
                 {"attention", own_attention ? ops::attention_instructions(facts.device) : "torch"},
                 {"onednn", at::globalContext().userEnabledMkldnn()},
                 {"torch", TORCH_VERSION}};
  if (!facts.micro_batch_sizes.empty()) record["micro_batch_sizes"] = facts.micro_batch_sizes;
  return record;
}

ops::KernelChoice recorded_choice(const Json& record) {
  ops::KernelChoice choice;
  choice.products = recorded_products(record.value("products", Json("torch")));
  if (record.value("attention", "torch") == "torch") choice.attention = ops::AttentionChoice::torch;
  return choice;
}

std::string kernel_differences(const Json& saved, const Json& now) {
  std::string text;
  for (const auto& [key, value] : now.items()) add_differences(key, value_of(saved, key), value, text);
  return text;
}

}  // namespace terrace::train
