// Models from the Hugging Face hub: a folder with config.json and safetensors files.
//
// GPT-2 (model_type gpt2), Llama (llama), Mistral (mistral), Qwen 2 (qwen2) and Qwen 3 (qwen3) are
// read here and written by hub_export.hpp. A setting that changes the function of the model and
// that a gpt_config cannot say is refused by its name, and so is a tensor that nobody would read: a
// model is imported exactly or not at all.

#pragma once

#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/model/gpt/gpt_config.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

class directory_lock;

/// The shape that a config.json describes; `where` begins its messages. Sequence and positions are
/// the longest that the model was made for, the padded vocabulary is the vocabulary, and dropouts
/// are 0, whatever the file says: who wants to train with other values sets them. Throws
/// input_error.
gpt_config hub_config(std::string_view config_json, const std::string& where);

/// Rows of a tensor in a file that become rows of one of ours, one after another. A vector has rows
/// of one element. What is a row of ours is a column of a source that is stored as (in, out).
struct hub_rows {
  std::string source;  ///< name in the files
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t of = 0;  ///< rows that the source has
};

/// How one of our tensors is put together.
struct hub_recipe {
  std::string name;         ///< ours: Megatron-core's
  shape extents;            ///< ours: (out, in), without padding rows
  bool transposed = false;  ///< the sources are (in, out)
  std::vector<hub_rows> rows;
};

/// Extents of a source as it lies in its file.
shape source_extents(const hub_recipe& recipe, const hub_rows& rows);

/// The recipes of all parameters, in the order of the model: of a Llama when its positions are
/// rotary, else of a GPT-2, whose names begin with `prefix` ("transformer." or nothing).
std::vector<hub_recipe> hub_recipes(const gpt_config& config, const std::string& prefix);

/// An opened model. Immutable: any thread.
class hub_model {
 public:
  const gpt_config& config() const { return config_; }

  /// All parameters by our names; "output_layer.weight" only when it is not tied.
  const std::vector<hub_recipe>& parameters() const { return recipes_; }
  bool has(std::string_view name) const;
  /// Throws broken_promise when there is no such parameter.
  const shape& extents(std::string_view name) const;

  /// The elements of a parameter, row-major, as floats; `out` has extents(name).size() elements.
  void read(std::string_view name, std::span<float> out) const;

 private:
  friend hub_model read_hub_model(const std::filesystem::path& dir);
  struct tensor_location {
    const safetensors_file* file;
    const stored_tensor* tensor;
  };
  void open(const std::filesystem::path& dir);
  void check_size(const std::filesystem::path& dir) const;
  void check_sources(const std::filesystem::path& dir) const;
  void check_unread(const std::filesystem::path& dir) const;
  void check_tied_head(const tensor_location& head) const;
  const hub_recipe& recipe(std::string_view name) const;

  gpt_config config_;
  std::vector<hub_recipe> recipes_;
  std::vector<std::unique_ptr<safetensors_file>> files_;
  std::map<std::string, tensor_location, std::less<>> sources_;  // by name in the files
};

/// Whether `dir` is a model folder of Hugging Face: it has a config.json and no checkpoint of ours.
bool is_hub_folder(const std::filesystem::path& dir);

/// Opens `dir`: config.json with model.safetensors, or with model.safetensors.index.json and the
/// files that it names. Every tensor that is needed is there with its extents, or input_error says
/// which is not.
hub_model read_hub_model(const std::filesystem::path& dir);

/// What save_hub_model asks first, for who writes something of his own before it, under the lock.
/// Throws input_error when `dir` has checkpoints.
void require_no_checkpoints(const std::filesystem::path& dir);

/// Saves the parameters as the checkpoint of iteration 0 in `dir`, without moments; returns its
/// folder. `lock` is of `dir`. `identity` is a JSON object. `advance` is told the parameters
/// written so far. Throws input_error when `dir` has checkpoints already, and io_error.
std::filesystem::path save_hub_model(const hub_model& model,
                                     const std::filesystem::path& dir,
                                     const directory_lock& lock,
                                     const std::string& identity,
                                     const std::function<void(std::uint64_t)>& advance = {});

}  // namespace troupe::runtime
