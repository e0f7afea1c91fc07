// The keys of [model] that a GPT has, and their rules.
#pragma once

#include <vector>

#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/other_names.h"
#include "terrace/config/rules.h"

namespace terrace::models::gpt {

std::vector<config::Key> keys();
std::vector<config::Rule> rules();
std::vector<config::IdleRule> idle_rules();
std::vector<config::OtherName> other_names();

// The keys and rules of sparse feed-forward layers, which the functions above append.
void add_expert_keys(std::vector<config::Key>& list);
void add_expert_rules(std::vector<config::Rule>& list);
void add_expert_idle_rules(std::vector<config::IdleRule>& list);

}  // namespace terrace::models::gpt
