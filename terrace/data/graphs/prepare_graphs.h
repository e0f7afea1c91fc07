// Makes a dataset of graphs of files of structures: terrace data prepare --kind graphs.
#pragma once

#include <string>
#include <vector>

#include "terrace/data/preparation.h"

namespace terrace::data {

class GraphsPreparation : public Preparation {
 public:
  // The input files that are finished are recorded at most every so many seconds, for --resume.
  explicit GraphsPreparation(double seconds_between_records = 30) : seconds_between_records_(seconds_between_records) {}

  std::string kind() const override { return "graphs"; }
  std::string about() const override {
    return "Molecules, crystals, meshes and point sets with their properties, for graph networks";
  }
  std::vector<PrepareFlag> flags() const override;
  bool divides_work() const override { return true; }
  // Writes P.bin and P.json (graphs_description.h) for the prefix P. Inputs are files and folders, which ranks share by
  // size (file_parts.h); the files that are written do not depend on the number of ranks.
  PrepareResult prepare(const PrepareRequest& request) const override;

  bool has_made(const std::string& prefix) const override;
  PrepareResult inspect(const std::string& prefix) const override;

 private:
  double seconds_between_records_;
};

}  // namespace terrace::data
