// Making and freeing communicators, and tags.
#include "terrace/comm/mpi_channel.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace terrace::comm {

MpiChannel::MpiChannel(std::shared_ptr<MpiLibrary> library, const mesh::Group& group, int64_t member,
                       const MpiChoices& choices, MPI_Comm communicator, uint64_t key)
    : library_(std::move(library)),
      group_(group),
      member_(member),
      in_rank_order_(group.ranks.size()),
      choices_(choices),
      communicator_(communicator),
      key_(key) {
  std::iota(in_rank_order_.begin(), in_rank_order_.end(), 0);
  std::ranges::sort(in_rank_order_, {}, [&](int64_t i) { return group.ranks[static_cast<size_t>(i)]; });
}

MpiChannel::~MpiChannel() {
  if (separated_) library_->retire(communicator_);
}

void MpiChannel::separate() {
  const std::vector<int> ranks(group_.ranks.begin(), group_.ranks.end());
  MPI_Group all, members;
  check_mpi(MPI_Comm_group(communicator_, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  const int made = MPI_Comm_create_group(communicator_, members, 0, &communicator_);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  check_mpi(made, "MPI_Comm_create_group");
  separated_ = true;
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

int tag_of(const Call& call, TagUse use) {
  constexpr uint64_t calls = 8192;  // MPI promises tags up to 32767
  return static_cast<int>(4 * (call.sequence % (calls - 1)) + static_cast<uint64_t>(use));
}

}  // namespace terrace::comm
