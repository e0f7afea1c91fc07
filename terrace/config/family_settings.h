// Holds the settings of one family of models, [model] or [data], in a form that can be copied and compared without
// knowing the family.
#pragma once

#include <any>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::config {

// Empty, or a copy of the family's own struct, which must be copyable and comparable.
class FamilySettings {
 public:
  FamilySettings() = default;

  template <typename Settings>
  static FamilySettings of(Settings settings) {
    FamilySettings holder;
    holder.value_ = std::move(settings);
    holder.equal_ = [](const std::any& a, const std::any& b) {
      const auto* other = std::any_cast<Settings>(&b);
      return other != nullptr && *std::any_cast<Settings>(&a) == *other;
    };
    return holder;
  }

  // nullptr if the object is empty or holds the settings of another family.
  template <typename Settings>
  const Settings* find() const {
    return std::any_cast<Settings>(&value_);
  }

  // Aborts if the object is empty or holds the settings of another family.
  template <typename Settings>
  const Settings& get() const {
    const Settings* settings = find<Settings>();
    TERRACE_CHECK(settings != nullptr, "these are the settings of another family of models");
    return *settings;
  }
  template <typename Settings>
  Settings& get() {
    return const_cast<Settings&>(std::as_const(*this).get<Settings>());
  }

  bool operator==(const FamilySettings& other) const {
    if (!value_.has_value() || !other.value_.has_value()) return value_.has_value() == other.value_.has_value();
    return equal_(value_, other.value_);
  }

 private:
  std::any value_;
  bool (*equal_)(const std::any&, const std::any&) = nullptr;
};

}  // namespace terrace::config
