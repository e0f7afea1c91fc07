// Judges the predictions of an output by labels: figures with and without one scale of the spread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/ensemble/uncertainty.h"

namespace terrace::ensemble {

// The labelled values of an output with what is predicted of them.
struct JudgedOutput {
  std::string name = {};
  std::string units = {};    // of labels and predictions; "" where they are not known
  bool is_per_atom = false;  // values are those of the structure divided by its atoms
  bool is_of_atoms = false;  // a structure has `columns` values for each atom, else `columns` in all
  int64_t columns = 1;
  Distribution predicted = {};           // [n]
  std::vector<double> labels = {};       // [n]
  std::vector<int64_t> structures = {};  // [n], ascending: the number in the input of the structure with the value
  std::vector<int64_t> rows = {};        // [n]: the atom in its structure; empty where no atom is left out
  std::optional<double> scale = {};      // of the spread, fitted to other labels
};

// Calibration's figures; with a scale also {"scale", "scaled": the figures of the spread times the scale}.
Json json_of(const JudgedOutput& output);

// The figures of outputs by name, each as json_of() has them, as a text of lines.
std::string judgement_table(const Json& outputs);

// The value of a structure with the largest error. An error that is not finite is larger than all others.
struct WorstCase {
  size_t value = 0;       // its place in the output
  int64_t structure = 0;  // in the input, from 0
  int64_t atom = -1;      // in the structure, from 0; -1: the output is not of atoms
  int64_t column = 0;
};
// One for each of the structures with the largest errors, at most so many, the largest first.
std::vector<WorstCase> worst_cases(const JudgedOutput& output, size_t at_most);

}  // namespace terrace::ensemble
