// The points of a finite space, each once and with a number. Points that differ only in parameters that do not exist
// there are one point.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "terrace/search/study/existence.h"
#include "terrace/search/study/parameter.h"

namespace terrace::search {

class Grid {
 public:
  Grid(const std::vector<Parameter>& parameters, const Existence& existence);

  // The number of points. None if it is infinite or above 2^62, or if the parameters that conditions name have too many
  // combinations.
  std::optional<uint64_t> size() const { return size_; }
  // The point of an index below size(). Without conditions the last parameter changes first.
  Point point(uint64_t index) const;

 private:
  // A combination of values of the parameters that conditions name.
  struct Branch {
    Point point;       // the values, and `absent` where a parameter does not exist
    uint64_t end = 0;  // where the numbers of its points end, which begin where those of the branch before end
  };
  // Parameters that conditions join, directly or through others.
  struct Group {
    std::vector<size_t> members;  // in their order
    std::vector<size_t> named;    // members that conditions name, each after those that its own conditions name
    std::vector<Branch> branches = {};

    bool is_named(size_t parameter) const;
  };

  void make_groups(const Existence& existence);
  bool add_branches(Group& group, const Existence& existence, size_t depth, Point& point) const;
  std::optional<uint64_t> count_free(const Group& group, const Point& point) const;

  std::vector<Parameter> parameters_;
  std::vector<Group> groups_;
  std::optional<uint64_t> size_;
};

}  // namespace terrace::search
