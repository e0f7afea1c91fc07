// Writes whole cache lines with non-temporal stores and copies both ends with memcpy.
#include "terrace/comm/threads/copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace terrace::comm {

void copy_past_caches(void* to, const void* from, size_t bytes) {
  auto* written = static_cast<char*>(to);
  const auto* read = static_cast<const char*>(from);
#if defined(__x86_64__)
  constexpr size_t line = 64;
  const size_t head = (line - reinterpret_cast<uintptr_t>(written) % line) % line;
  if (bytes >= head + line) {
    std::memcpy(written, read, head);
    written += head, read += head, bytes -= head;
    for (; bytes >= line; written += line, read += line, bytes -= line) {
      for (size_t at = 0; at < line; at += sizeof(__m128i)) {
        const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(read + at));
        _mm_stream_si128(reinterpret_cast<__m128i*>(written + at), part);
      }
    }
    // The bytes must be visible to other threads before they learn that the copy is done.
    _mm_sfence();
  }
#endif
  std::memcpy(written, read, bytes);
}

}  // namespace terrace::comm
