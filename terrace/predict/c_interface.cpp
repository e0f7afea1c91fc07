// Lets no exception pass to the caller.
#include "terrace/predict/c_interface.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/data/graphs/structures/elements.h"
#include "terrace/data/graphs/structures/structure.h"
#include "terrace/predict/graph_predictor.h"
#include "terrace/predict/potential_outputs.h"

struct terrace_potential {
  explicit terrace_potential(const char* checkpoint)
      : model(checkpoint), outputs(terrace::predict::potential_outputs(model)) {}

  terrace::predict::GraphPredictor model;
  terrace::predict::PotentialOutputs outputs;
};

namespace {

void say(std::string_view message, char* error, int error_size) {
  if (error == nullptr || error_size < 1) return;
  const size_t length = std::min(message.size(), static_cast<size_t>(error_size) - 1);
  message.copy(error, length);
  error[length] = '\0';
}

terrace::data::Structure structure_of_arrays(int atoms, const int* atomic_numbers, const double* positions,
                                             const double* cell, const int* periodic) {
  terrace::data::Structure structure;
  for (int atom = 0; atom < atoms; ++atom) {
    if (atomic_numbers[atom] < 1 || atomic_numbers[atom] > terrace::data::most_element) {
      throw terrace::UserError::of("atom {} has the atomic number {}; give 1 to {}", atom, atomic_numbers[atom],
                                   terrace::data::most_element);
    }
    structure.species.push_back(static_cast<uint8_t>(atomic_numbers[atom]));
  }
  structure.positions.assign(positions, positions + 3 * static_cast<ptrdiff_t>(atoms));
  for (size_t k = 0; k < 3 && cell != nullptr; ++k) {
    structure.cell.vectors[k] = {cell[3 * k], cell[3 * k + 1], cell[3 * k + 2]};
    structure.cell.periodic[k] = periodic != nullptr && periodic[k] != 0;
  }
  return structure;
}

}  // namespace

terrace_potential* terrace_potential_open(const char* checkpoint, char* error, int error_size) {
  try {
    return std::make_unique<terrace_potential>(checkpoint).release();
  } catch (const std::exception& exception) {
    say(exception.what(), error, error_size);
    return nullptr;
  }
}

int terrace_potential_compute(terrace_potential* potential, int atoms, const int* atomic_numbers,
                              const double* positions, const double* cell, const int* periodic, double* energy,
                              double* forces, char* error, int error_size) {
  try {
    const terrace::data::Structure structure = structure_of_arrays(atoms, atomic_numbers, positions, cell, periodic);
    const terrace::predict::GraphPrediction prediction = potential->model.predict({&structure, 1});
    const double electronvolts = potential->outputs.electronvolts;
    *energy = electronvolts * prediction.values.find(potential->outputs.energy)->second.at(0);
    const auto in_electronvolts = [&](double force) { return electronvolts * force; };
    if (forces != nullptr) {
      std::ranges::transform(prediction.values.find(potential->outputs.forces)->second, forces, in_electronvolts);
    }
    return 0;
  } catch (const std::exception& exception) {
    say(exception.what(), error, error_size);
    return 1;
  }
}

void terrace_potential_close(terrace_potential* potential) { delete potential; }
