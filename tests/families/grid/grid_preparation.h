// Makes a dataset of grids from text: --kind grid.
#pragma once

#include "terrace/data/preparation.h"

namespace terrace::grid {

class GridPreparation : public data::Preparation {
 public:
  std::string kind() const override { return "grid"; }
  std::string about() const override { return "Fields on a grid from a text file of numbers"; }
  std::vector<data::PrepareFlag> flags() const override;
  // The inputs are files of numbers: for each time, each variable and each place one.
  data::PrepareResult prepare(const data::PrepareRequest& request) const override;
};

}  // namespace terrace::grid
