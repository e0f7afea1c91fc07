// Shares out the members of an ensemble among ranks so that all ranks finish at nearly the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace::ensemble {

// Members by their numbers. A place is a rank, or as many ranks as a member's layout needs.
struct PackedMembers {
  std::vector<size_t> on_all = {};                 // members that all places train together, one after another, first
  std::vector<std::vector<size_t>> on_place = {};  // then what each place trains alone, one after another
  double greatest = 0, mean = 0;                   // load of a place

  // The greatest load over the mean load, at least 1; 1 where nothing is to be done.
  double greatest_over_mean() const { return mean > 0 ? greatest / mean : 1; }
};

// `costs` are the predicted times of the members on one place, of at least 0. From the costliest to the cheapest each
// member goes to the place with the least load (Graham, 1969). Where that leaves the greatest load above
// `most_over_mean` times the mean, as few of the costliest members as are needed are trained by all places together, of
// which each then has an equal part. Only members with `may_be_on_all` are trained so; none if that is empty.
PackedMembers pack(std::span<const double> costs, int64_t places, const std::vector<bool>& may_be_on_all,
                   double most_over_mean = 1.1);

}  // namespace terrace::ensemble
