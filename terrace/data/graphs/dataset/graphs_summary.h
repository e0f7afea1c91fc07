// Tells in words and as JSON what is in a dataset of graphs.
#pragma once

#include <string>

#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/preparation.h"

namespace terrace::data {

// Tells structures, atoms, parts, elements and properties; `prefix` is the P of the files.
PrepareResult summary_of_graphs(const GraphsDescription& description, const std::string& prefix);

}  // namespace terrace::data
