// Finds the axes of a field among the dimensions of a variable.
#include "terrace/data/fields/netcdf/field_dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

namespace terrace::data {
namespace {

constexpr size_t most_labels_shown = 8;

// Returns the coordinates of the entries as texts; none where the dimension has no coordinate.
std::vector<std::string> labels_of(const NetcdfFile& file, const NetcdfAxis& axis) {
  std::vector<std::string> labels;
  for (const double value : axis.values) labels.push_back(fmt::format("{:.9g}", value));
  if (!labels.empty()) return labels;
  const int variable = file.find(axis.name);
  labels = variable < 0 ? std::vector<std::string>{} : file.texts(variable);
  return labels.size() == axis.size ? labels : std::vector<std::string>{};
}

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

bool are_same_label(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const std::optional<double> x = number_of(a), y = number_of(b);
  return x && y && std::abs(*x - *y) <= 1e-6 * std::abs(*y);
}

std::string entries_text(const std::vector<std::string>& labels) {
  if (labels.empty()) return "";
  const std::vector<std::string> shown(
      labels.begin(), labels.begin() + std::min<std::ptrdiff_t>(most_labels_shown, std::ssize(labels)));
  return fmt::format(" ({}{})", fmt::join(shown, ", "), shown.size() < labels.size() ? ", .." : "");
}

std::string way_to_choose(const NetcdfAxis& axis, const std::vector<std::string>& labels) {
  const std::string by_index = fmt::format("--select {}=0, or another index up to {}", axis.name, axis.size - 1);
  return labels.empty() ? by_index : fmt::format("{}, or --select {}=value:{}", by_index, axis.name, labels.front());
}

const char* way_to_choose_of(AxisKind kind) {
  return kind == AxisKind::time    ? "axis of times; choose times by --train FROM TO"
         : kind == AxisKind::level ? "axis of levels; choose levels by --levels"
                                   : "axis of the grid, which is taken as a whole";
}

class DimensionReader {
 public:
  DimensionReader(const NetcdfFile& file, NetcdfAxes& axes, const std::vector<DimensionChoice>& choices)
      : file_(file), axes_(axes), choices_(choices) {}

  FieldDimensions read(const std::vector<NetcdfFile::Dimension>& dimensions) {
    for (const auto& dimension : dimensions) {
      const NetcdfAxis* axis = &axes_.of(dimension);
      if (std::ranges::find(list_, axis) != list_.end()) return {};  // a covariance along the dimension
      list_.push_back(axis);
    }
    found_.entries.assign(list_.size(), 0);
    for (const NetcdfAxis* axis : list_) found_.kinds.push_back(kind_of(*axis));
    for (size_t i = 0; i < list_.size(); ++i) take(i);
    if (!found_.lies_on_grid()) found_.problem.clear();
    return found_;
  }

 private:
  const DimensionChoice* choice_of(const NetcdfAxis& axis) const {
    const auto found = std::ranges::find(choices_, axis.name, &DimensionChoice::dimension);
    return found == choices_.end() ? nullptr : &*found;
  }

  // Returns the kind of an axis. Where several axes are of one kind, such as two of times, the first that is read as a
  // whole has the kind, and the others are of the kind other.
  AxisKind kind_of(const NetcdfAxis& axis) const {
    std::vector<const NetcdfAxis*> same;
    std::ranges::copy_if(list_, std::back_inserter(same), [&](const auto* one) { return one->kind == axis.kind; });
    if (same.size() == 1) return axis.kind;
    const auto has_no_choice = [&](const NetcdfAxis* one) { return choice_of(*one) == nullptr; };
    const auto is_whole = [&](const NetcdfAxis* one) { return one->size > 1 && has_no_choice(one); };
    auto first = std::ranges::find_if(same, is_whole);
    if (first == same.end()) first = std::ranges::find_if(same, has_no_choice);
    return first != same.end() && *first == &axis ? axis.kind : AxisKind::other;
  }

  void take(size_t dimension) {
    const NetcdfAxis& axis = *list_[dimension];
    const DimensionChoice* choice = choice_of(axis);
    switch (found_.kinds[dimension]) {
      case AxisKind::time:
        found_.time = &axis;
        break;
      case AxisKind::level:
        found_.level = &axis;
        break;
      case AxisKind::latitude:
        found_.latitude = &axis;
        break;
      case AxisKind::longitude:
        found_.longitude = &axis;
        break;
      case AxisKind::other:
        found_.others.push_back(axis.name);
        return take_entry(dimension, axis, choice);
    }
    if (choice != nullptr) {
      add_problem(fmt::format("cannot be taken with --select {}: {} is its {}", axis.name, axis.name,
                              way_to_choose_of(axis.kind)));
    }
  }

  void take_entry(size_t dimension, const NetcdfAxis& axis, const DimensionChoice* choice) {
    if (choice == nullptr && axis.size == 1) return;
    const std::vector<std::string> labels = labels_of(file_, axis);
    if (choice == nullptr) {
      return add_problem(fmt::format("has the dimension {} of size {}{}; take one entry by {}", axis.name, axis.size,
                                     entries_text(labels), way_to_choose(axis, labels)));
    }
    const std::optional<size_t> index = choice->index ? choice->index : index_of(choice->label, labels);
    if (!index || *index >= axis.size) {
      const std::string wanted = choice->index ? std::to_string(*choice->index) : "value:" + choice->label;
      return add_problem(fmt::format("cannot be taken with --select {}={}: {} has {} entries{}; give {}", axis.name,
                                     wanted, axis.name, axis.size, entries_text(labels), way_to_choose(axis, labels)));
    }
    found_.entries[dimension] = *index;
    found_.chosen[axis.name] = {.index = static_cast<int64_t>(*index), .label = labels.empty() ? "" : labels[*index]};
  }

  static std::optional<size_t> index_of(const std::string& label, const std::vector<std::string>& labels) {
    const auto found = std::ranges::find_if(labels, [&](const auto& one) { return are_same_label(one, label); });
    return found == labels.end() ? std::nullopt : std::optional(static_cast<size_t>(found - labels.begin()));
  }

  void add_problem(const std::string& problem) { found_.problem += (found_.problem.empty() ? "" : ", and ") + problem; }

  const NetcdfFile& file_;
  NetcdfAxes& axes_;
  const std::vector<DimensionChoice>& choices_;
  std::vector<const NetcdfAxis*> list_;
  FieldDimensions found_;
};

}  // namespace

FieldDimensions field_dimensions(const NetcdfFile& file, NetcdfAxes& axes,
                                 const std::vector<NetcdfFile::Dimension>& dimensions,
                                 const std::vector<DimensionChoice>& choices) {
  return DimensionReader(file, axes, choices).read(dimensions);
}

}  // namespace terrace::data
