// The functions of model_family that follow from the types of a family's settings: Config decides
// parameters and function, and Asked is what a command line writes. Both have rows.
//
// `validate` stands beside Config, and `resolve`, `resolve_hub` and `write_back` beside Asked: the
// functions of model_family, with these types.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/family/config_json.hpp"
#include "runtime/family/model_family.hpp"

#include <any>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// `positions`: rows of a learned table; 0: none.
template <class Config>
embedding_spec embedding_of(const Config& c, std::int64_t positions) {
  return {.hidden = c.hidden,
          .vocabulary = c.vocabulary,
          .padded_vocabulary = c.padded_vocabulary,
          .positions = positions,
          .dropout = c.hidden_dropout,
          .init_std = c.init_std};
}

namespace beside_settings {  // in a class, its members would hide these functions

inline constexpr auto rules = [](const auto& x) { return validate(x); };
inline constexpr auto made = [](auto&... x) { return resolve(x...); };
inline constexpr auto made_with_hub = [](auto&... x) { return resolve_hub(x...); };
inline constexpr auto decided = [](auto&... x) { write_back(x...); };

}  // namespace beside_settings

template <class Config, class Asked = Config>
class typed_family : public model_family {
 public:
  model_description defaults() const final { return Config(); }

  void set_vocabulary(model_description& model,
                      std::int64_t vocabulary,
                      std::int64_t padded) const final {
    auto& x = model.as<Config>();
    x.vocabulary = vocabulary;
    x.padded_vocabulary = padded;
  }

  std::vector<std::string> validate(const model_description& model) const final {
    return beside_settings::rules(config_of(model));
  }

  std::string to_json(const model_description& model) const override {
    return config_to_json(config_of(model));
  }
  model_description from_json(const std::string& text) const override {
    return config_from_json<Config>(text, title());
  }
  std::string essence(const model_description& model) const override {
    return json_text(function_of(model));
  }

  bool has_dropout(const model_description& model) const final {
    const auto& x = config_of(model);
    return x.hidden_dropout > 0 || x.attention_dropout > 0;
  }

  std::any asked() const final { return Asked(); }
  std::vector<bound_setting> bind(std::any& asked) const override {
    return bind_settings(std::any_cast<Asked&>(asked), "model.");
  }

  std::optional<model_description> resolve(const std::any& asked,
                                           const given_settings& given,
                                           std::vector<std::string>& wrong) const final {
    return beside_settings::made(std::any_cast<const Asked&>(asked), given, wrong);
  }
  model_description resolve_hub(const model_description& there,
                                const std::any& asked,
                                const given_settings& given,
                                const std::string& hub,
                                std::vector<std::string>& wrong) const final {
    return beside_settings::made_with_hub(
        config_of(there), std::any_cast<const Asked&>(asked), given, hub, wrong);
  }
  void write_back(const model_description& model,
                  std::any& asked,
                  given_settings& given,
                  bool from_hub) const final {
    beside_settings::decided(config_of(model), std::any_cast<Asked&>(asked), given, from_hub);
  }

 protected:
  static const Config& config_of(const model_description& model) { return model.as<Config>(); }

  /// The sizes that `smallest` asks for, in two heads.
  static Config of_smallest_sizes(Config x = {}) {
    x.hidden = 16;
    x.heads = 2;
    x.ffn = 32;
    x.vocabulary = 29;
    x.padded_vocabulary = 32;
    return x;
  }

  /// `whole`: the number of heads divides it; 0: it is any.
  static std::vector<shared_size> usual_shares(const Config& x, std::int64_t whole) {
    return {{"`model.heads`", x.heads, whole},
            {"`model.ffn`", x.ffn},
            {"the padded vocabulary", x.padded_vocabulary}};
  }

  /// The JSON of `model` without settings of training alone.
  nlohmann::json function_of(const model_description& model) const {
    auto out = json_value(to_json(model));
    config_json::erase_training<Config>(out);
    return out;
  }
};

}  // namespace troupe::runtime
