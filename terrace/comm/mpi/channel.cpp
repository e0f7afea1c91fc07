// Makes and frees communicators and shared memory, and numbers the tags of messages.
#include "terrace/comm/mpi/channel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"

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

void MpiChannel::share(const PeerIdentity& first) {
  const RingSize size = choices_.limits.rings;
  TERRACE_CHECK(size.slot_bytes >= RingSize::alignment * (this->size() - 1), "slots of {} bytes for {} members",
                size.slot_bytes, this->size());
  const size_t bytes = SharedRings::bytes_needed(this->size(), size);
  TERRACE_CHECK(this->size() <= MpiLimits::most_ring_members, "slot rings for {} members", this->size());
  std::unique_ptr<SharedMemory> memory;
  int descriptor = -1;
  if (member_ == 0) {
    memory = std::make_unique<SharedMemory>(bytes);
    if (memory->is_mapped()) descriptor = memory->descriptor();
  }
  check_mpi(MPI_Bcast(&descriptor, 1, MPI_INT, 0, communicator_), "MPI_Bcast");
  if (descriptor < 0) return;
  if (member_ != 0) memory = std::make_unique<SharedMemory>(first.process_id, descriptor, bytes);
  int mapped = memory->is_mapped() ? 1 : 0, all_mapped = 0;
  check_mpi(MPI_Allreduce(&mapped, &all_mapped, 1, MPI_INT, MPI_MIN, communicator_), "MPI_Allreduce");
  memory->close_descriptor();
  if (all_mapped != 0) rings_ = std::make_unique<SharedRings>(std::move(memory), this->size(), member_, size);
}

int tag_of(const Call& call, TagUse use) {
  constexpr uint64_t calls = 8192;  // MPI promises tags up to 32767
  return static_cast<int>(4 * (call.sequence % (calls - 1)) + static_cast<uint64_t>(use));
}

}  // namespace terrace::comm
