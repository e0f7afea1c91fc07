// Collects what the families of the program prepare.
#include "cli/preparations.h"

#include "terrace/data/data_of_family.h"
#include "terrace/models/families.h"

namespace terrace::cli {

Preparations preparations() {
  Preparations all;
  for (const config::Family* family : models::families()) {
    if (family->data == nullptr || family->data->preparation() == nullptr) continue;
    all.push_back(family->data->preparation());
  }
  return all;
}

}  // namespace terrace::cli
