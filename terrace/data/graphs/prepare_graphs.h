// Makes a dataset of graphs of files of structures: terrace data prepare --kind graphs.
#pragma once

#include <string>
#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::data {

class GraphsPreparation : public Preparation {
 public:
  std::string kind() const override { return "graphs"; }
  std::string about() const override {
    return "Molecules, crystals, meshes and point sets with their properties, for graph networks";
  }
  std::vector<PrepareFlag> flags() const override;
  // Writes P.bin and P.json (graphs_description.h) for the prefix P. Inputs are files and folders.
  PrepareResult prepare(const PrepareRequest& request) const override;

  bool has_made(const std::string& prefix) const override;
  PrepareResult inspect(const std::string& prefix) const override;
};

}  // namespace terrace::data
