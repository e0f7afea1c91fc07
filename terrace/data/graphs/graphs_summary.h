// What is in a dataset of graphs, in words and as JSON.
#pragma once

#include <string>

#include "terrace/data/graphs/graphs_description.h"
#include "terrace/data/preparation.h"

namespace terrace::data {

// Structures, atoms, parts, elements and properties; "P" is the prefix.
PrepareResult summary_of_graphs(const GraphsDescription& description, const std::string& prefix);

}  // namespace terrace::data
