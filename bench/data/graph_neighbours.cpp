// Processor time of neighbour lists, in turns with another program that writes lines to the standard input.
// Usage: bench_data_graph_neighbours FILE CUTOFF   (bench/data/graph_neighbours.py writes FILE and runs it)
#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/graphs/neighbours.h"

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

// FILE has doubles: the nine of the cell, then the positions.
int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: {} FILE CUTOFF\n", arguments[0]);
    return 2;
  }
  const terrace::MappedFile file(arguments[1]);
  std::vector<double> numbers(file.bytes().size() / sizeof(double));
  std::memcpy(numbers.data(), file.bytes().data(), numbers.size() * sizeof(double));
  terrace::data::Cell cell{.periodic = {true, true, true}};
  for (size_t k = 0; k < 9; ++k) cell.vectors[k / 3][k % 3] = numbers[k];
  const std::span<const double> positions = std::span<const double>(numbers).subspan(9);
  std::string line;
  while (std::getline(std::cin, line)) {
    const double began = processor_seconds();
    const terrace::data::NeighbourList list =
        terrace::data::find_neighbours(positions, cell, {.cutoff = std::strtod(arguments[2], nullptr)});
    fmt::print("{} {:.6f}\n", list.edges(), processor_seconds() - began);
    std::fflush(stdout);
  }
  return 0;
}
