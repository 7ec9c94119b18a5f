// A family with the functions that each family has, for tests of what generic code asks.

#pragma once

#include "runtime/family/families.hpp"
#include "runtime/family/gpt/gpt.hpp"

#include <any>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace troupe::tests {

/// A family with the models of a GPT of one size.
struct fixed_settings {
  std::int64_t layers = 2;

  friend bool operator==(const fixed_settings&, const fixed_settings&) = default;
  static constexpr auto fields() {
    return std::tuple(runtime::row("layers", &fixed_settings::layers));
  }
};

inline const runtime::model_family& family_of(const fixed_settings& settings);

class fixed_family : public runtime::model_family {
 public:
  std::string_view name() const override { return "fixed"; }
  std::string_view title() const override { return "a fixed model"; }
  runtime::model_description defaults() const override { return fixed_settings(); }
  runtime::model_description smallest(int layers) const override { return fixed_settings{layers}; }
  runtime::model_spec spec(const runtime::model_description& model,
                           const runtime::extension& own) const override {
    return gpt_of(model).spec(own);
  }
  runtime::model_sizes sizes(const runtime::model_description& model) const override {
    return runtime::gpt_family().sizes(gpt_of(model));
  }
  void set_vocabulary(runtime::model_description&, std::int64_t, std::int64_t) const override {}
  std::vector<std::string> validate(const runtime::model_description& model) const override {
    return runtime::validate(gpt_of(model));
  }
  std::string to_json(const runtime::model_description& model) const override {
    return fmt::format("{{\"layers\":{}}}", model.as<fixed_settings>().layers);
  }
  runtime::model_description from_json(const std::string& text) const override {
    return fixed_settings{text == "{\"layers\":3}" ? 3 : 2};
  }
  std::vector<runtime::shared_size> shared_by_tensor_ranks(
      const runtime::model_description&) const override {
    return {};
  }
  std::string describe(const runtime::model_description&,
                       const runtime::extension&) const override {
    return "model       fixed\n";
  }
  std::any asked() const override { return fixed_settings(); }
  std::vector<runtime::required_setting> required() const override { return {}; }
  std::optional<runtime::model_description> resolve(const std::any& asked,
                                                    const runtime::given_settings&,
                                                    std::vector<std::string>&) const override {
    return std::any_cast<const fixed_settings&>(asked);
  }
  void write_back(const runtime::model_description&,
                  std::any&,
                  runtime::given_settings&,
                  bool) const override {}

 protected:
  virtual runtime::model_description gpt_of(const runtime::model_description& model) const {
    return runtime::gpt_family().smallest(int(model.as<fixed_settings>().layers));
  }
};

inline const runtime::model_family& fixed() {
  static const fixed_family only;
  static const bool added = (runtime::add_family(only), true);
  static_cast<void>(added);
  return only;
}

inline const runtime::model_family& family_of(const fixed_settings& /*settings*/) {
  return fixed();
}

}  // namespace troupe::tests
