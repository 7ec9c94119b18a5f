// A family of models: a folder of runtime/family, registered in one line of families.cpp. Generic
// code sees this interface and model_description.
//
// A family has a struct of settings with a `family_of` (model_description.hpp), and a class that
// overrides the functions below. runtime/family/gpt is one.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/family/embedded_text.hpp"
#include "runtime/family/given_text.hpp"
#include "runtime/family/hub_translation.hpp"
#include "runtime/family/model_description.hpp"
#include "runtime/family/model_outline.hpp"
#include "runtime/family/peer_estimates.hpp"
#include "runtime/layout/axis.hpp"

#include <any>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

class family_samples;
class tokenizer;

/// Messages about them name `sequence_setting` and `model.layers`.
struct model_sizes {
  std::int64_t sequence = 0;           ///< T: tokens of a training sample
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V
  /// Units that stages share evenly: at least 1 in a valid model.
  std::int64_t layers = 0;
  const char* sequence_setting = "model.sequence";  ///< gives `sequence`
};

/// A size that an axis divides.
struct shared_size {
  std::string name;  ///< in errors, "`model.heads`"
  std::int64_t size = 0;
  std::int64_t whole = 0;  ///< a size must divide this; 0: any multiple will do
  axis along = axis::tensor;
};

struct required_setting {
  std::string name;          ///< "model.layers"
  std::string example;       ///< a value for the help, "2"
  std::string instead = {};  ///< another setting that serves as well; empty: none
};

/// A dense model whose checkpoint a model with experts can begin with (upcycling).
struct dense_origin {
  model_description model;
  double factor = 1;  ///< of the weights of experts
};

/// Settings with one title in a help.
struct setting_group {
  const char* title;
  /// Their names, in order. "data.*": all others that begin so, in the order of their rows.
  const char* settings;
};

/// Names of the settings that were given, such as "model.layers" or "model.activation=swiglu".
using given_settings = std::set<std::string, std::less<>>;

/// One object a family. Immutable and thread-safe. Functions get models of this family only.
class model_family {
 public:
  virtual ~model_family() = default;

  virtual std::string_view name() const = 0;   ///< in files, and of `troupe train NAME`
  virtual std::string_view title() const = 0;  ///< in sentences: "a GPT"

  virtual model_description defaults() const = 0;
  /// A model of a few thousand parameters for simulations: 6 tokens, a vocabulary of 29, padded to
  /// 32, and as many layers as given.
  virtual model_description smallest(int layers) const = 0;
  /// The same with experts. Empty if `smallest` has them already, or if no model of the family has.
  virtual std::optional<model_description> smallest_with_experts(int /*layers*/) const {
    return {};
  }

  /// Throws input_error for an extension without a name, and for one that the family cannot add.
  virtual model_spec spec(const model_description& model, const extension& own) const = 0;
  virtual model_sizes sizes(const model_description& model) const = 0;
  virtual void set_vocabulary(model_description& model,
                              std::int64_t vocabulary,
                              std::int64_t padded) const = 0;

  /// Ids behind those of the tokenizer, such as sentinels.
  virtual std::int64_t extra_tokens(const model_description& /*model*/) const { return 0; }

  /// One sentence per violated rule, which names the setting and the nearest valid value.
  virtual std::vector<std::string> validate(const model_description& model) const = 0;

  /// A JSON object without a member "family". Reading throws input_error.
  virtual std::string to_json(const model_description& model) const = 0;
  virtual model_description from_json(const std::string& text) const = 0;
  /// The part of to_json that a resumed run must repeat: parameters and function.
  virtual std::string essence(const model_description& model) const { return to_json(model); }

  /// The letters of its units. Also for sizes that `validate` refuses. The default builds the spec,
  /// and names layers alone if they are too many: a family that uses it refuses these in
  /// `validate`.
  virtual unit_letters letters(const model_description& model) const;
  /// Without padding rows; tied ones count once. Also for untrusted sizes that `validate` accepts.
  /// The default builds the spec, as that of `letters` does.
  virtual std::int64_t parameter_count(const model_description& model) const;
  /// At most the number of its parameters with any extension, for a check of untrusted files.
  virtual std::int64_t fewest_parameters(const model_description& model) const {
    return sizes(model).layers;
  }
  virtual bool has_dropout(const model_description& /*model*/) const { return false; }

  /// Rules of layouts: also for sizes of 0.
  virtual std::vector<shared_size> shared_by_tensor_ranks(const model_description& model) const = 0;
  /// Sizes that the axes expert and expert_tensor divide, the number of experts first. Empty: the
  /// model has no experts.
  virtual std::vector<shared_size> shared_by_expert_ranks(
      const model_description& /*model*/) const {
    return {};
  }
  /// The dense model of which the experts are slices, `granularity` of them in a layer. Empty if
  /// the model violates a rule, with sentences in `wrong`, or if the family has no such models.
  virtual std::optional<dense_origin> dense_origin_of(const model_description& /*model*/,
                                                      std::int64_t /*granularity*/,
                                                      std::vector<std::string>& /*wrong*/) const {
    return {};
  }

  /// The first lines of a dry run. Each ends with a newline.
  virtual std::string describe(const model_description& model, const extension& own) const = 0;

  /// The setting that names files of its own instead of data settings; empty: none.
  virtual const char* own_data() const { return ""; }

  /// The model that a pretrained checkpoint must have: without parts that fine-tuning replaces. Two
  /// such models have the same essence.
  virtual model_description body_of(const model_description& model) const { return model; }
  /// True for a parameter that begins with initial values if a pretrained checkpoint lacks it.
  virtual bool begins_anew(const model_description& /*model*/,
                           std::string_view /*parameter*/) const {
    return false;
  }

  /// Its samples, of files and made up. The default: those of a decoder of text.
  virtual const family_samples& samples() const;

  /// Text that the model reads before it generates, in tokens of this tokenizer. Empty: it
  /// continues the prompt. Throws input_error for a tokenizer without the tokens that it needs.
  virtual std::optional<given_text> text_before(const model_description& /*model*/,
                                                const tokenizer& /*text*/) const {
    return {};
  }

  /// The input that turns a text into a vector. Empty: it is no encoder of one text. Throws
  /// input_error for a tokenizer without the tokens that it needs.
  virtual std::optional<embedded_text> embedded(const model_description& /*model*/,
                                                const tokenizer& /*text*/) const {
    return {};
  }

  /// Null: the Hub has no such models.
  virtual const hub_translation* hub() const { return nullptr; }

  virtual std::optional<theoretical_memory> megatron_memory(const model_description& /*model*/,
                                                            const job_outline& /*job*/) const {
    return {};
  }
  /// `job` has the whole model on each device.
  virtual std::optional<pytorch_memory> pytorch_estimate(const model_description& /*model*/,
                                                         const job_outline& /*job*/,
                                                         pytorch_mode /*mode*/) const {
    return {};
  }

  /// Empty: forecasts of time do not know the family.
  virtual std::optional<model_outline> outline(const model_description& /*model*/) const {
    return {};
  }

  /// Settings as a command line or file writes them, before `resolve`: any type of the family.
  virtual std::any asked() const = 0;
  /// The flags of `asked`, which outlives them. Their names begin with "model.".
  virtual std::vector<bound_setting> bind(std::any& /*asked*/) const { return {}; }
  /// The beginning of a help: the settings of `bind`, and others that belong to the model.
  virtual std::vector<setting_group> groups() const { return {{"Model", "model.*"}}; }
  /// The settings that `resolve` needs, without a Hub model.
  virtual std::vector<required_setting> required() const = 0;
  /// The model that was asked for. Adds a sentence for each contradiction. Nothing if a required
  /// setting is missing. The vocabulary is set later.
  virtual std::optional<model_description> resolve(const std::any& asked,
                                                   const given_settings& given,
                                                   std::vector<std::string>& wrong) const = 0;
  /// The model of the Hub folder `hub` with the settings that may differ from it, such as dropout.
  /// Adds a sentence for each given setting that contradicts it.
  virtual model_description resolve_hub(const model_description& there,
                                        const std::any& asked,
                                        const given_settings& given,
                                        const std::string& hub,
                                        std::vector<std::string>& wrong) const;
  /// Writes decided values into settings that were not given, and adds these to `given`. With
  /// `from_hub`, only settings that may differ from the Hub's model. Assigns to the object in
  /// `asked`: results of `bind` refer to it, so it is never replaced.
  virtual void write_back(const model_description& model,
                          std::any& asked,
                          given_settings& given,
                          bool from_hub) const = 0;
};

}  // namespace troupe::runtime
