// Sorts atoms into bins along the vectors of the cell and looks for neighbours in the bins around each atom.
#include "terrace/data/graphs/neighbours.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"

namespace terrace::data {
namespace {

constexpr double most_cells_away = 1e9;
constexpr double most_images = 1000;      // in one direction
constexpr double tie_angstrom = 1e-6;     // distances that differ by less count as equal under a cap
constexpr double rounding_margin = 1e-9;  // relative, of the heights of bins
constexpr double bins_per_atom = 4;       // at most, so that molecules in large boxes take little memory

// A sender and its shift as two numbers that sort like (j, S).
struct Neighbour {
  uint64_t high = 0, low = 0;

  static uint32_t ordered(int32_t number) { return static_cast<uint32_t>(number) ^ 0x80000000u; }
  static int32_t number(uint64_t ordered_number) {
    return static_cast<int32_t>(static_cast<uint32_t>(ordered_number) ^ 0x80000000u);
  }
  static Neighbour of(int32_t atom, const std::array<int32_t, 3>& shift) {
    return {(uint64_t{static_cast<uint32_t>(atom)} << 32) | ordered(shift[0]),
            (uint64_t{ordered(shift[1])} << 32) | ordered(shift[2])};
  }
  int32_t atom() const { return static_cast<int32_t>(high >> 32); }
  std::array<int32_t, 3> shift() const { return {number(high), number(low >> 32), number(low)}; }
  bool operator<(const Neighbour& other) const { return high != other.high ? high < other.high : low < other.low; }
};

struct RankedNeighbour {
  int64_t rank = 0;  // the distance in multiples of tie_angstrom
  Neighbour neighbour = {};
  bool operator<(const RankedNeighbour& other) const {
    return std::tie(rank, neighbour) < std::tie(other.rank, other.neighbour);
  }
};

// The bins along one vector of the cell.
struct BinAxis {
  double lowest = 0, bins_per_fraction = 1;
  int64_t bins = 1;
  int64_t reach = 0;  // bins to visit on each side
  bool periodic = false;
};

// The atoms in the order of the bins, moved into the cell where the cell is periodic.
struct BinnedAtoms {
  std::vector<double> x = {}, y = {}, z = {};
  std::vector<int32_t> atom = {};                  // its number
  std::vector<std::array<int32_t, 3>> moved = {};  // cells: position = wrapped + moved * cell
};

class NeighbourSearch {
 public:
  NeighbourSearch(std::span<const double> positions, const Cell& cell, const NeighbourOptions& options)
      : positions_(positions),
        cell_(cell),
        options_(options),
        span_(spanning_cell(cell)),
        atoms_(positions.size() / 3) {}

  NeighbourList run() {
    wrap();
    choose_bins();
    fill_bins();
    visit_all();
    return std::move(list_);
  }

 private:
  Vector3 position(size_t atom) const {
    return {positions_[3 * atom], positions_[3 * atom + 1], positions_[3 * atom + 2]};
  }

  void wrap() {
    fractions_.resize(atoms_);
    moved_.resize(atoms_);
    for (size_t atom = 0; atom < atoms_; ++atom) {
      const Vector3 at = position(atom);
      for (size_t k = 0; k < 3; ++k) {
        double fraction = dot(at, span_.reciprocal[k]);
        if (!(std::abs(fraction) < most_cells_away)) {
          throw UserError::of("atom {} is at ({:g}, {:g}, {:g}), which is not finite or more than {:g} cells away",
                              atom, at[0], at[1], at[2], most_cells_away);
        }
        const double cells = cell_.periodic[k] ? std::floor(fraction) : 0;
        fractions_[atom][k] = fraction - cells;
        moved_[atom][k] = static_cast<int32_t>(cells);
      }
    }
  }

  void choose_bins() {
    const double reach = options_.cutoff * (1 + rounding_margin);
    std::array<double, 3> extent = {};  // in angstrom, perpendicular to the faces
    for (size_t k = 0; k < 3; ++k) {
      axes_[k].periodic = cell_.periodic[k];
      double lowest = 0, highest = 1;
      if (!cell_.periodic[k]) {
        lowest = std::numeric_limits<double>::infinity();
        highest = -lowest;
        for (const Vector3& fraction : fractions_) {
          lowest = std::min(lowest, fraction[k]);
          highest = std::max(highest, fraction[k]);
        }
      }
      axes_[k].lowest = lowest;
      extent[k] = (highest - lowest) * span_.heights[k];
    }
    double height = reach;
    const double most = std::max(1.0, bins_per_atom * static_cast<double>(atoms_));
    const auto bins_of = [&](size_t k) { return std::max(1.0, std::floor(extent[k] / height)); };
    while (bins_of(0) * bins_of(1) * bins_of(2) > most) height *= 1.25;
    for (size_t k = 0; k < 3; ++k) {
      BinAxis& axis = axes_[k];
      axis.bins = static_cast<int64_t>(bins_of(k));
      const double of_bin = extent[k] / static_cast<double>(axis.bins);
      axis.bins_per_fraction = extent[k] > 0 ? span_.heights[k] / of_bin : 0;
      if (!axis.periodic) {
        axis.reach = axis.bins > 1 ? 1 : 0;
        continue;
      }
      const double images = std::ceil(reach / of_bin);
      if (images > most_images) {
        throw UserError::of(
            "a cutoff of {:g} reaches over {:.0f} images of a cell that is {:g} high along vector {}; use a larger "
            "cell "
            "or a cutoff of at most {:g}",
            options_.cutoff, images, span_.heights[k], k + 1, most_images * span_.heights[k]);
      }
      axis.reach = static_cast<int64_t>(images);
    }
  }

  int64_t bin_along(size_t k, const Vector3& fraction) const {
    const BinAxis& axis = axes_[k];
    const auto bin = static_cast<int64_t>((fraction[k] - axis.lowest) * axis.bins_per_fraction);
    return std::clamp<int64_t>(bin, 0, axis.bins - 1);
  }

  size_t bin_number(int64_t a, int64_t b, int64_t c) const {
    return static_cast<size_t>((a * axes_[1].bins + b) * axes_[2].bins + c);
  }

  void fill_bins() {
    const size_t bins = bin_number(axes_[0].bins - 1, axes_[1].bins - 1, axes_[2].bins - 1) + 1;
    std::vector<uint32_t> bin_of(atoms_);
    first_.assign(bins + 1, 0);
    for (size_t atom = 0; atom < atoms_; ++atom) {
      const Vector3& at = fractions_[atom];
      bin_of[atom] = static_cast<uint32_t>(bin_number(bin_along(0, at), bin_along(1, at), bin_along(2, at)));
      ++first_[bin_of[atom] + 1];
    }
    for (size_t bin = 0; bin < bins; ++bin) first_[bin + 1] += first_[bin];
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    for (auto* values : {&binned_.x, &binned_.y, &binned_.z}) values->resize(atoms_);
    binned_.atom.resize(atoms_);
    binned_.moved.resize(atoms_);
    for (size_t atom = 0; atom < atoms_; ++atom) {
      const uint32_t place = next[bin_of[atom]]++;
      const Vector3 wrapped = wrapped_position(atom);
      binned_.x[place] = wrapped[0];
      binned_.y[place] = wrapped[1];
      binned_.z[place] = wrapped[2];
      binned_.atom[place] = static_cast<int32_t>(atom);
      binned_.moved[place] = moved_[atom];
      largest_ = std::max(largest_, std::abs(wrapped[0]) + std::abs(wrapped[1]) + std::abs(wrapped[2]));
      for (size_t k = 0; k < 3; ++k) largest_ = std::max(largest_, std::abs(positions_[3 * atom + k]));
    }
  }

  Vector3 wrapped_position(size_t atom) const {
    Vector3 at = position(atom);
    for (size_t k = 0; k < 3; ++k) {
      for (size_t axis = 0; axis < 3; ++axis) at[axis] -= moved_[atom][k] * span_.vectors[k][axis];
    }
    return at;
  }

  void visit_all() {
    const double images = static_cast<double>(std::max({axes_[0].reach, axes_[1].reach, axes_[2].reach}));
    // Atoms that are nearer by the wrapped positions may be in the list; the definition then decides.
    const double margin = 1e-12 * (largest_ + images * largest_vector() + options_.cutoff);
    limit_ = (options_.cutoff + margin) * (options_.cutoff + margin);
    certain_ = margin < options_.cutoff ? (options_.cutoff - margin) * (options_.cutoff - margin) : 0;
    list_.first_edge.assign(1, 0);
    list_.first_edge.reserve(atoms_ + 1);
    for (size_t atom = 0; atom < atoms_; ++atom) {
      // The edges of the first atoms tell how much to reserve, so that the list is not copied as it grows.
      if (atom == atoms_ / 16) reserve(17 * list_.senders.size());
      end_if_stopped_at_start();  // a large cutoff has millions of edges an atom
      found_.clear();
      visit_around(atom);
      std::sort(found_.begin(), found_.end());
      if (options_.max_neighbours > 0 && std::ssize(found_) > options_.max_neighbours) keep_nearest(atom);
      for (const Neighbour& neighbour : found_) {
        list_.senders.push_back(neighbour.atom());
        list_.shifts.push_back(neighbour.shift());
      }
      list_.receivers.resize(list_.senders.size(), static_cast<int32_t>(atom));
      list_.first_edge.push_back(list_.edges());
    }
  }

  void reserve(size_t edges) {
    list_.receivers.reserve(edges);
    list_.senders.reserve(edges);
    list_.shifts.reserve(edges);
  }

  double largest_vector() const {
    double largest = 0;
    for (size_t k = 0; k < 3; ++k) largest = std::max(largest, length(span_.vectors[k]));
    return largest;
  }

  struct Images {
    int64_t bin = 0, image = 0;
  };

  // Returns the bin that has a number, which may lie outside of the cell; bin -1 where nothing is.
  Images image_of(size_t k, int64_t number) const {
    const BinAxis& axis = axes_[k];
    if (number >= 0 && number < axis.bins) return {number, 0};
    if (!axis.periodic) return {-1, 0};
    const int64_t image = number >= 0 ? number / axis.bins : -((axis.bins - 1 - number) / axis.bins);
    return {number - image * axis.bins, image};
  }

  void visit_around(size_t atom) {
    const Vector3& fraction = fractions_[atom];
    const Vector3 from = wrapped_position(atom);
    const std::array<int64_t, 3> home = {bin_along(0, fraction), bin_along(1, fraction), bin_along(2, fraction)};
    for (int64_t a = home[0] - axes_[0].reach; a <= home[0] + axes_[0].reach; ++a) {
      const Images at_a = image_of(0, a);
      if (at_a.bin < 0) continue;
      for (int64_t b = home[1] - axes_[1].reach; b <= home[1] + axes_[1].reach; ++b) {
        const Images at_b = image_of(1, b);
        if (at_b.bin >= 0) visit_row(atom, from, at_a, at_b, home[2]);
      }
    }
  }

  // Visits bins that follow each other along c: in one image they hold atoms that follow each other.
  void visit_row(size_t atom, const Vector3& from, const Images& at_a, const Images& at_b, int64_t home) {
    const BinAxis& axis = axes_[2];
    int64_t c = home - axis.reach;
    const int64_t last = home + axis.reach;
    if (!axis.periodic) c = std::max<int64_t>(c, 0);
    while (c <= last) {
      const Images at_c = image_of(2, c);
      if (at_c.bin < 0) return;
      const int64_t count = std::min(axis.bins - at_c.bin, last - c + 1);
      const size_t begin = first_[bin_number(at_a.bin, at_b.bin, at_c.bin)];
      const size_t end = first_[bin_number(at_a.bin, at_b.bin, at_c.bin + count - 1) + 1];
      const std::array<int64_t, 3> image = {at_a.image, at_b.image, at_c.image};
      visit_range(atom, from, image, begin, end);
      c += count;
    }
  }

  void visit_range(size_t atom, const Vector3& from, const std::array<int64_t, 3>& image, size_t begin, size_t end) {
    Vector3 origin = from;
    for (size_t k = 0; k < 3; ++k) {
      for (size_t axis = 0; axis < 3; ++axis) {
        origin[axis] -= static_cast<double>(image[k]) * span_.vectors[k][axis];
      }
    }
    for (size_t place = begin; place < end; ++place) {
      const double x = binned_.x[place] - origin[0], y = binned_.y[place] - origin[1], z = binned_.z[place] - origin[2];
      const double square = x * x + y * y + z * z;
      if (square < limit_) add_if_near(atom, place, image, square < certain_);
    }
  }

  // `is_certain` says that the atom is so much nearer than the cutoff that rounding cannot matter.
  void add_if_near(size_t atom, size_t place, const std::array<int64_t, 3>& image, bool is_certain) {
    std::array<int32_t, 3> shift;
    for (size_t k = 0; k < 3; ++k) {
      shift[k] = static_cast<int32_t>(image[k]) - binned_.moved[place][k] + moved_[atom][k];
    }
    const int32_t sender = binned_.atom[place];
    if (sender == static_cast<int32_t>(atom) && shift == std::array<int32_t, 3>{}) return;
    const Neighbour neighbour = Neighbour::of(sender, shift);
    if (is_certain || distance_squared(atom, neighbour) < options_.cutoff * options_.cutoff)
      found_.push_back(neighbour);
  }

  // Computes the distance by the definition, so that it does not depend on how atoms were wrapped.
  double distance_squared(size_t atom, const Neighbour& neighbour) const {
    const Vector3 from = position(atom), to = position(static_cast<size_t>(neighbour.atom()));
    const std::array<int32_t, 3> shift = neighbour.shift();
    double sum = 0;
    for (size_t axis = 0; axis < 3; ++axis) {
      double moved = 0;
      for (size_t k = 0; k < 3; ++k) {
        if (cell_.periodic[k]) moved += shift[k] * cell_.vectors[k][axis];
      }
      const double component = to[axis] - from[axis] + moved;
      sum += component * component;
    }
    return sum;
  }

  void keep_nearest(size_t atom) {
    ranked_.clear();
    for (const Neighbour& neighbour : found_) {
      ranked_.push_back({std::llround(std::sqrt(distance_squared(atom, neighbour)) / tie_angstrom), neighbour});
    }
    const auto kept = static_cast<size_t>(options_.max_neighbours);
    std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(kept), ranked_.end());
    found_.resize(kept);
    for (size_t i = 0; i < kept; ++i) found_[i] = ranked_[i].neighbour;
    std::sort(found_.begin(), found_.end());
  }

  std::span<const double> positions_;
  const Cell& cell_;
  const NeighbourOptions& options_;
  SpanningCell span_;
  size_t atoms_;
  std::vector<Vector3> fractions_;  // in [0, 1) along periodic directions
  std::vector<std::array<int32_t, 3>> moved_;
  std::array<BinAxis, 3> axes_ = {};
  std::vector<uint32_t> first_;  // [bins + 1], of the atoms in the order of bins
  BinnedAtoms binned_;
  double largest_ = 0, limit_ = 0, certain_ = 0;
  std::vector<Neighbour> found_;
  std::vector<RankedNeighbour> ranked_;
  NeighbourList list_;
};

}  // namespace

NeighbourList find_neighbours(std::span<const double> positions, const Cell& cell, const NeighbourOptions& options) {
  TERRACE_CHECK(positions.size() % 3 == 0, "{} numbers are no positions", positions.size());
  if (!(options.cutoff > 0) || !std::isfinite(options.cutoff)) {
    throw UserError::of("a cutoff of {:g} angstrom; give one greater than 0, such as 5", options.cutoff);
  }
  if (const std::string problem = problem_of(cell); !problem.empty()) throw UserError(problem);
  return NeighbourSearch(positions, cell, options).run();
}

MutualPairs mutual_pairs(const NeighbourList& list) {
  MutualPairs result;
  result.pairs.assign(list.receivers.size(), -1);
  for (size_t edge = 0; edge < list.receivers.size(); ++edge) {
    if (result.pairs[edge] >= 0) continue;
    const std::array<int32_t, 3>& shift = list.shifts[edge];
    const auto wanted = std::pair(list.receivers[edge], std::array{-shift[0], -shift[1], -shift[2]});
    // The edges of a receiver are sorted by sender and shift.
    const auto receiver = static_cast<size_t>(list.senders[edge]);
    auto low = static_cast<size_t>(list.first_edge[receiver]),
         high = static_cast<size_t>(list.first_edge[receiver + 1]);
    const auto end = high;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (std::pair(list.senders[middle], list.shifts[middle]) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    TERRACE_CHECK(low < end && low > edge && std::pair(list.senders[low], list.shifts[low]) == wanted,
                  "edge {} from atom {} to {} has no edge back", edge, list.senders[edge], list.receivers[edge]);
    result.pairs[edge] = result.pairs[low] = std::ssize(result.first_edges);
    result.first_edges.push_back(static_cast<int64_t>(edge));
  }
  return result;
}

}  // namespace terrace::data
