// Starts and ends MPI, and defines the sums of 16-bit types that MPI lacks.
#include "terrace/comm/mpi/library.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"
#include "terrace/comm/launcher.h"
#include "terrace/comm/nccl/nccl.h"
#include "terrace/comm/sum.h"

namespace terrace::comm {
namespace {

// MPI adds pairs of terms in a tree; each pair is added in fp32 and rounded.
template <Type type>
void add_pairs(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  const void* const from[] = {in_and_out, in};
  void* const to[] = {in_and_out};
  sum_members(type, from, to, 0, *count);
}

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

void check_thread_level(int provided) {
  if (provided >= MPI_THREAD_SERIALIZED) return;
  throw UserError::of(
      "the MPI library ({}) allows calls from one thread only (thread level {}), and terrace calls it from two, one at "
      "a "
      "time (MPI_THREAD_SERIALIZED, level {}): use an MPI that was built with threads, or run the ranks as threads of "
      "one process with --ranks",
      library_version(), provided, static_cast<int>(MPI_THREAD_SERIALIZED));
}

// Without PMIx, Open MPI would end the process with advice on how to build Slurm.
void check_pmix() {
  if (std::getenv("SLURM_STEP_NUM_TASKS") == nullptr || launched_processes() <= 1) return;
  if (library_version().rfind("Open MPI", 0) != 0) return;
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (std::getenv(name) != nullptr) return;
  }
  throw UserError::of("srun started {} processes without the PMIx that the MPI library ({}) needs: use srun --mpi=pmix",
                      launched_processes(), library_version());
}

void check_launch() {
  int found = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &found);
  const int64_t launched = launched_processes();
  if (launched == 0 || launched == found) return;
  throw UserError::of(
      "the launcher started {} processes and the MPI library that terrace was built with ({}) sees {}: start with the "
      "mpirun of that library, or with srun --mpi=TYPE where TYPE is one that it supports ('srun --mpi=list' shows "
      "them; "
      "pmix for Open MPI)",
      launched, library_version(), found);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{} failed: {}", call, std::string(text, static_cast<size_t>(length))));
}

MpiLibrary::MpiLibrary() {
  prepare_for_ranks();
  int started = 0, provided = 0;
  MPI_Initialized(&started);
  if (started != 0) {
    MPI_Query_thread(&provided);
  } else {
    check_pmix();
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  }
  finalizes_ = started == 0;
  check_thread_level(provided);
  check_launch();
  for (MPI_Datatype* type : {&bf16_, &fp16_}) {
    check_mpi(MPI_Type_contiguous(2, MPI_BYTE, type), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(type), "MPI_Type_commit");
  }
  check_mpi(MPI_Op_create(add_pairs<Type::bf16>, 1, &sum_bf16_), "MPI_Op_create");
  check_mpi(MPI_Op_create(add_pairs<Type::fp16>, 1, &sum_fp16_), "MPI_Op_create");
}

// An operation that was given up cannot be cancelled: MPI cancels neither nonblocking collectives nor a message of
// which a part has arrived.
void MpiLibrary::keep_for_ever(std::shared_ptr<const void> memory) {
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;  // found by no destructor
  kept.push_back(std::move(memory));
}

MpiLibrary::~MpiLibrary() {
  if (!finalizes_) return;
  MPI_Barrier(MPI_COMM_WORLD);
  for (MPI_Comm& communicator : retired_) MPI_Comm_free(&communicator);
  MPI_Op_free(&sum_fp16_);
  MPI_Op_free(&sum_bf16_);
  MPI_Type_free(&fp16_);
  MPI_Type_free(&bf16_);
  MPI_Finalize();
}

MPI_Datatype MpiLibrary::type_of(Type type) const {
  switch (type) {
    case Type::fp64:
      return MPI_DOUBLE;
    case Type::fp32:
      return MPI_FLOAT;
    case Type::bf16:
      return bf16_;
    case Type::fp16:
      return fp16_;
    case Type::int64:
      return MPI_INT64_T;
    case Type::int32:
      return MPI_INT32_T;
    case Type::uint8:
      return MPI_UINT8_T;
  }
  TERRACE_CHECK(false, "type {}", static_cast<int>(type));
}

MPI_Op MpiLibrary::sum_of(Type type) const {
  if (type == Type::bf16) return sum_bf16_;
  if (type == Type::fp16) return sum_fp16_;
  return MPI_SUM;
}

}  // namespace terrace::comm
