// The keys of [model] that a graph network has, and the rules between them.
#pragma once

#include <vector>

#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/other_names.h"
#include "terrace/config/rules.h"

namespace terrace::models::gnn {

std::vector<config::Key> keys();
std::vector<config::Rule> rules();
std::vector<config::IdleRule> idle_rules();
// HydraGNN's names.
std::vector<config::OtherName> other_names();

}  // namespace terrace::models::gnn
