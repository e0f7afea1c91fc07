// Collects what the families of the program prepare.
#include "cli/preparations.h"

#include <algorithm>

#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"

namespace terrace::cli {

// Several families may have data of one kind.
Preparations preparations() {
  Preparations all;
  for (const config::Family* family : models::families()) {
    if (family->data == nullptr || family->data->preparation() == nullptr) continue;
    const data::Preparation* own = family->data->preparation();
    const auto is_same = [&](const data::Preparation* one) { return one->kind() == own->kind(); };
    if (std::ranges::none_of(all, is_same)) all.push_back(own);
  }
  return all;
}

}  // namespace terrace::cli
