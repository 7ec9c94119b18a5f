// A model as a value: its family, and the family's own settings. Generic code asks the family by
// the functions below; the family's own code reads the settings by `as`.
//
// FAMILY-1: settings are read only as the type that they have.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/model/extension.hpp"
#include "runtime/model/model_spec.hpp"

#include <any>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

class model_family;

/// Settings of a family: a struct with rows, copyable and comparable. Its namespace has a function
/// `const model_family& family_of(const Settings&)`.
template <class Settings>
concept family_settings
    = has_fields<Settings> && std::equality_comparable<Settings> && requires(const Settings& x) {
  { family_of(x) } -> std::same_as<const model_family&>;
};

class model_description {
 public:
  model_description();  ///< the default settings of the default family (families.hpp)
  template <family_settings Settings>
  model_description(Settings settings)
      : family_(&family_of(settings)),
        settings_(std::move(settings)),
        are_equal_([](const std::any& a, const std::any& b) {
          return std::any_cast<const Settings&>(a) == std::any_cast<const Settings&>(b);
        }) {}

  const model_family& family() const { return *family_; }

  /// Breaks FAMILY-1 if the settings are of another type.
  template <class Settings>
  const Settings& as() const {
    if (const auto* const found = std::any_cast<Settings>(&settings_))
      return *found;
    refuse_type();
  }
  template <class Settings>
  Settings& as() {
    return const_cast<Settings&>(std::as_const(*this).as<Settings>());
  }

  model_spec spec(const extension& own = {}) const;
  std::int64_t sequence() const;           ///< T: tokens of a training sample
  std::int64_t vocabulary() const;         ///< real tokens
  std::int64_t padded_vocabulary() const;  ///< V
  std::int64_t layers() const;             ///< units that stages share evenly
  unit_letters letters() const;            ///< of its units

  friend bool operator==(const model_description& a, const model_description& b) {
    return a.family_ == b.family_ && a.are_equal_(a.settings_, b.settings_);
  }

 private:
  [[noreturn]] void refuse_type() const;

  const model_family* family_;
  std::any settings_;
  bool (*are_equal_)(const std::any&, const std::any&);
};

/// ceil(vocabulary / (divisor * tensor parallel size)) * divisor * tensor parallel size.
std::int64_t padded_vocabulary_size(std::int64_t vocabulary,
                                    std::int64_t divisor,
                                    std::int64_t tensor_parallel);

/// One sentence per violated rule; empty if the model can be built.
std::vector<std::string> validate(const model_description& model);

/// Convert to and from the "model" object of saved files. An object of another family than the
/// default one has the member "family". Throws input_error.
std::string to_json(const model_description& model);
model_description model_from_json(const std::string& text);

/// Parameters of the whole model, without padding rows; tied parameters count once. A formula, also
/// for sizes of untrusted files; runtime/model/counts.hpp counts those of a spec.
std::int64_t parameter_count(const model_description& model);

}  // namespace troupe::runtime
