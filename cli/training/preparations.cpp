// Collects what the families of the program prepare.
#include "cli/preparations.h"

#include <algorithm>

#include "terrace/data/data_of_family.h"
#include "terrace/data/kinds_of_data.h"
#include "terrace/data/preparation.h"
#include "terrace/models/families.h"

namespace terrace::cli {

// Several families may have data of one kind.
Preparations preparations() {
  Preparations all;
  const auto add = [&](const data::Preparation* own) {
    const auto is_same = [&](const data::Preparation* one) { return one->kind() == own->kind(); };
    if (std::ranges::none_of(all, is_same)) all.push_back(own);
  };
  for (const config::Family* family : models::families()) {
    if (family->data == nullptr || family->data->preparation() == nullptr) continue;
    add(family->data->preparation());
  }
  for (const data::Preparation* kind : data::kinds_of_data()) add(kind);
  return all;
}

}  // namespace terrace::cli
