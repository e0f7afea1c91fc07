// Packs members of drawn costs and looks at the loads and at who is trained.
#include "terrace/ensemble/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace terrace::ensemble {
namespace {

std::vector<size_t> all_members(const PackedMembers& packing) {
  std::vector<size_t> members = packing.on_all;
  for (const std::vector<size_t>& place : packing.on_place) members.insert(members.end(), place.begin(), place.end());
  std::ranges::sort(members);
  return members;
}

TEST(Packing, IsEvenAndTrainsEachMemberOnce) {
  std::mt19937 draw(3);
  for (int64_t places = 1; places <= 8; ++places) {
    for (size_t count = 1; count <= 20; ++count) {
      std::vector<double> costs;
      std::vector<size_t> numbers;
      for (size_t i = 0; i < count; ++i) {
        costs.push_back(std::uniform_real_distribution<double>(1, 30)(draw));
        numbers.push_back(i);
      }
      const PackedMembers packing = pack(costs, places, std::vector<bool>(count, true));
      EXPECT_EQ(all_members(packing), numbers);
      EXPECT_LE(packing.greatest_over_mean(), 1.1) << count << " members on " << places << " places";
    }
  }
}

TEST(Packing, TrainsAloneWhatFitsEvenly) {
  const std::vector<double> costs = {4, 3, 3, 2, 2, 2};
  const PackedMembers packing = pack(costs, 2, std::vector<bool>(6, true));
  EXPECT_TRUE(packing.on_all.empty());
  EXPECT_DOUBLE_EQ(packing.greatest, 8);
  EXPECT_DOUBLE_EQ(packing.mean, 8);
}

TEST(Packing, TrainsTheFifthOfFiveEqualMembersOnBothPlaces) {
  const PackedMembers packing = pack(std::vector<double>(5, 6.0), 2, std::vector<bool>(5, true));
  EXPECT_EQ(packing.on_all.size(), 1u);
  EXPECT_DOUBLE_EQ(packing.greatest, 15);
}

TEST(Packing, KeepsOffAllPlacesWhatDoesNotFitThere) {
  const PackedMembers packing = pack(std::vector<double>(5, 6.0), 2, {false, false, false, false, false});
  EXPECT_TRUE(packing.on_all.empty());
  EXPECT_DOUBLE_EQ(packing.greatest, 18);
  EXPECT_EQ(pack(std::vector<double>(5, 6.0), 2, {false, true, false, false, false}).on_all, std::vector<size_t>{1});
}

TEST(Packing, HasNothingToDoWithoutMembers) {
  const PackedMembers packing = pack({}, 3, {});
  EXPECT_TRUE(all_members(packing).empty());
  EXPECT_EQ(packing.greatest_over_mean(), 1);
}

}  // namespace
}  // namespace terrace::ensemble
