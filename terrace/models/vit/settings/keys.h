// The keys of [model] that a vision transformer has, and the rules between them.
#pragma once

#include <vector>

#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"

namespace terrace::models::vit {

std::vector<config::Key> keys();
std::vector<config::Rule> rules();
std::vector<config::IdleRule> idle_rules();

}  // namespace terrace::models::vit
