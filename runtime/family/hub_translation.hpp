// How a model family reads and writes folders of the Hugging Face Hub. Files and tensors are read
// and written by runtime/checkpoint (hub.hpp, hub_export.hpp).

#pragma once

#include "runtime/family/gguf_translation.hpp"
#include "runtime/family/model_description.hpp"
#include "runtime/tensor/shape.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Consecutive rows of a source tensor that become rows of a Troupe tensor. A vector has rows of
/// one element, and matrices in one tensor have rows one after the other. In a source stored as
/// (in, out) they are columns.
struct hub_rows {
  std::string source;  ///< name in the files
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t of = 0;  ///< total rows of the source
};

/// A recipe to assemble a Troupe tensor from source tensors.
struct hub_recipe {
  std::string name;         ///< Megatron-core's name
  shape extents;            ///< (out, in) or (matrices, out, in), without padding rows
  bool transposed = false;  ///< sources are stored as (in, out)
  std::vector<hub_rows> rows;
  bool stays_f32 = false;  ///< is exported as F32, whatever the type of the others
};

/// Immutable and thread-safe.
class hub_translation {
 public:
  virtual ~hub_translation() = default;

  /// True if the family reads this "model_type" of a config.json.
  virtual bool reads(std::string_view model_type) const = 0;

  /// The model of a config.json. Sequence length and positions are the maximum of the model. The
  /// padded vocabulary is the vocabulary, and dropouts are 0. Throws input_error, beginning with
  /// `where`, for a setting that changes the model's function and that the family lacks.
  virtual model_description model_of(std::string_view config_json,
                                     const std::string& where) const = 0;

  /// The config.json of a model with the same function, as JSON, without the element type and the
  /// ids of special tokens. Throws input_error with all settings that no Hub model supports.
  virtual std::string config_json(const model_description& model) const = 0;

  /// The same for the model without its heads; empty: the Hub has no such models.
  virtual std::string body_json(const model_description& /*model*/) const { return ""; }
  /// The name of a source in a folder without heads; empty: it is one of a head.
  virtual std::string name_in_body(std::string_view source) const { return std::string(source); }

  /// Recipes of all parameters in model order. `has` tells if the files have a tensor; null for an
  /// export. Those of new heads may be left out if the files are of a body alone, and files may
  /// give parts of other heads (model_family::begins_anew).
  virtual std::vector<hub_recipe> recipes(
      const model_description& model, const std::function<bool(std::string_view)>& has) const = 0;

  /// True for tensors in old files that follow from the configuration, such as masks.
  virtual bool is_constant(std::string_view /*source*/) const { return false; }

  /// True for tensors of parts that the family lacks. An import leaves them out and warns.
  virtual bool is_left_out(const model_description& /*model*/, std::string_view /*source*/) const {
    return false;
  }

  /// The source of which this one is a copy that files may repeat; empty: of none.
  virtual std::string copied_from(std::string_view /*source*/,
                                  const std::vector<hub_recipe>& /*all*/) const {
    return "";
  }

  /// Difference between the Hub's elements of a parameter and Troupe's.
  virtual float offset(const model_description& /*model*/, std::string_view /*parameter*/) const {
    return 0;
  }

  /// True if both have the same function: dropouts, padding, numbers of tokens and the storage of
  /// parameters may differ. `there` is a result of model_of.
  virtual bool is_same_function(const model_description& there,
                                const model_description& here) const = 0;

  /// The "general.architecture" of GGUF files that the family reads.
  virtual std::vector<std::string_view> gguf_architectures() const { return {}; }
  /// The config.json of a GGUF file of these. Throws input_error for metadata that change the
  /// model's function and that the family lacks.
  virtual std::string gguf_config(const gguf_outline& /*in*/) const { return ""; }
  /// Throws input_error with the reason if no GGUF file has the same function.
  virtual gguf_plan gguf_of(const model_description& model) const;

  /// "model_max_length" of the tokenizer.
  virtual std::int64_t longest(const model_description& model) const { return model.sequence(); }
};

}  // namespace troupe::runtime
