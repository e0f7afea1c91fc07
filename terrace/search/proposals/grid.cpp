// Counts the points of each group of parameters on its own: a group's points are those of its branches one after the
// other, and the grid is the product of the groups.
#include "terrace/search/proposals/grid.h"

#include <algorithm>
#include <numeric>

namespace terrace::search {
namespace {

constexpr uint64_t most_points = uint64_t{1} << 62;
constexpr size_t most_branches = 100'000;  // of a group

}  // namespace

bool Grid::Group::is_named(size_t parameter) const { return std::ranges::find(named, parameter) != named.end(); }

Grid::Grid(const std::vector<Parameter>& parameters, const Existence& existence) : parameters_(parameters) {
  if (!std::ranges::all_of(parameters_, [](const Parameter& one) { return one.count().has_value(); })) return;
  make_groups(existence);
  uint64_t product = 1;
  for (Group& group : groups_) {
    Point point(parameters_.size());
    if (!add_branches(group, existence, 0, point)) return;
    const uint64_t count = group.branches.back().end;
    if (count > most_points / product) return;
    product *= count;
  }
  size_ = product;
}

void Grid::make_groups(const Existence& existence) {
  std::vector<size_t> group_of(parameters_.size());
  std::iota(group_of.begin(), group_of.end(), size_t{0});
  std::vector<bool> is_named(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (const size_t named : existence.named_by(i)) {
      is_named[named] = true;
      std::ranges::replace(group_of, std::max(group_of[i], group_of[named]), std::min(group_of[i], group_of[named]));
    }
  }
  for (size_t first = 0; first < parameters_.size(); ++first) {
    Group group;
    for (size_t i = first; i < parameters_.size(); ++i) {
      if (group_of[i] == first) group.members.push_back(i);
    }
    for (const size_t i : existence.order()) {
      if (group_of[i] == first && is_named[i]) group.named.push_back(i);
    }
    if (!group.members.empty()) groups_.push_back(std::move(group));
  }
}

// The number of combinations of the members that no condition names; none if it is too large.
std::optional<uint64_t> Grid::count_free(const Group& group, const Point& point) const {
  uint64_t product = 1;
  for (const size_t i : group.members) {
    if (group.is_named(i) || point[i] == absent) continue;
    const uint64_t count = *parameters_[i].count();
    if (count > most_points / product) return std::nullopt;
    product *= count;
  }
  return product;
}

// Adds the branches with the point's values of the first `depth` named parameters. Returns whether they are few enough.
bool Grid::add_branches(Group& group, const Existence& existence, size_t depth, Point& point) const {
  if (depth == group.named.size()) {
    for (const size_t i : group.members) {
      if (!group.is_named(i)) point[i] = existence.exists(i, point) ? 0 : absent;
    }
    const std::optional<uint64_t> count = count_free(group, point);
    const uint64_t before = group.branches.empty() ? 0 : group.branches.back().end;
    if (!count || *count > most_points - before || group.branches.size() == most_branches) return false;
    group.branches.push_back({point, before + *count});
    return true;
  }
  const size_t named = group.named[depth];
  if (!existence.exists(named, point)) {
    point[named] = absent;
    return add_branches(group, existence, depth + 1, point);
  }
  for (uint64_t value = 0; value < *parameters_[named].count(); ++value) {
    point[named] = parameters_[named].first() + static_cast<double>(value);
    if (!add_branches(group, existence, depth + 1, point)) return false;
  }
  return true;
}

Point Grid::point(uint64_t index) const {
  Point point(parameters_.size());
  for (size_t g = groups_.size(); g-- > 0;) {
    const Group& group = groups_[g];
    uint64_t rest = index % group.branches.back().end;
    index /= group.branches.back().end;
    const auto branch = std::ranges::upper_bound(group.branches, rest, {}, &Branch::end);
    if (branch != group.branches.begin()) rest -= std::prev(branch)->end;
    for (size_t m = group.members.size(); m-- > 0;) {
      const size_t i = group.members[m];
      point[i] = branch->point[i];
      if (group.is_named(i) || point[i] == absent) continue;
      const uint64_t count = *parameters_[i].count();
      point[i] = parameters_[i].first() + static_cast<double>(rest % count);
      rest /= count;
    }
  }
  return point;
}

}  // namespace terrace::search
