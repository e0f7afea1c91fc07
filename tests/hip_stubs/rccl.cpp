// Stands in for RCCL where it cannot be had: the functions that terrace calls, each of which fails. Compiled with
// RCCL's header, which is NCCL's with HIP's names (tests/house/hip_test.py), so that the signatures are those.
#include <rccl/rccl.h>

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "a stub of RCCL was called"; }
const char* ncclGetLastError(ncclComm_t) { return "tests/hip_stubs/rccl.cpp"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSystemError; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) { return ncclSystemError; }
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) { return ncclSystemError; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*) { return ncclSystemError; }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSystemError; }
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSystemError; }
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSystemError; }
ncclResult_t ncclGroupStart() { return ncclSystemError; }
ncclResult_t ncclGroupEnd() { return ncclSystemError; }

ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, hipStream_t) {
  return ncclSystemError;
}
ncclResult_t ncclReduceScatter(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, hipStream_t) {
  return ncclSystemError;
}
ncclResult_t ncclAllGather(const void*, void*, size_t, ncclDataType_t, ncclComm_t, hipStream_t) {
  return ncclSystemError;
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, hipStream_t) {
  return ncclSystemError;
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, hipStream_t) { return ncclSystemError; }
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, hipStream_t) { return ncclSystemError; }

}  // extern "C"
