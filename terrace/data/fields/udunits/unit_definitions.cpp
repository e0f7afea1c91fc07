// Asks udunits2, whose tables are read once.
#include "terrace/data/fields/unit_definitions.h"

#include <udunits2.h>

#include <array>
#include <memory>
#include <mutex>

namespace terrace::data {

std::optional<std::string> unit_definition(const std::string& units) {
  // The library keeps its last error for the whole process, and several ranks of one may ask.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const std::unique_ptr<ut_system, void (*)(ut_system*)> all = [] {
    ut_set_error_message_handler(ut_ignore);
    return std::unique_ptr<ut_system, void (*)(ut_system*)>(ut_read_xml(nullptr), ut_free_system);
  }();
  if (all == nullptr) return std::nullopt;
  std::string trimmed = units;
  const std::unique_ptr<ut_unit, void (*)(ut_unit*)> unit(
      ut_parse(all.get(), ut_trim(trimmed.data(), UT_UTF8), UT_UTF8), ut_free);
  if (unit == nullptr) return std::nullopt;
  std::array<char, 256> text{};
  const int length = ut_format(unit.get(), text.data(), text.size(), UT_ASCII | UT_DEFINITION);
  if (length < 0 || static_cast<size_t>(length) >= text.size()) return std::nullopt;
  return std::string(text.data());
}

}  // namespace terrace::data
