// Imports models of the Hugging Face Hub: a folder with config.json and safetensors files, or one
// that stands for a GGUF file (gguf_model.hpp).
//
// Each family reads its own configurations and names (runtime/family/hub_translation.hpp);
// hub_export.hpp writes them. Throws input_error for a setting that changes the model's function
// and that the family lacks, and for a tensor without use. An import is thus exact.

#pragma once

#include "runtime/checkpoint/gguf.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/family/hub_translation.hpp"

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

/// Elements of a row: the last extent; of a vector 1.
std::int64_t row_size(const shape& x);
/// Returns the extents of a source as stored.
shape source_extents(const hub_recipe& recipe, const hub_rows& rows);

/// An opened model. Immutable and thread-safe.
class hub_model {
 public:
  const model_description& config() const { return config_; }

  /// The parameters in the files by Troupe's names; "output_layer.weight" only if it is not tied.
  /// Those of heads may be missing, or be further ones (hub_translation::recipes).
  const std::vector<hub_recipe>& parameters() const { return recipes_; }
  bool has(std::string_view name) const;
  /// Throws broken_promise if there is no such parameter.
  const shape& extents(std::string_view name) const;

  /// Reads a parameter as floats, row-major; `out` has extents(name).size() elements.
  void read(std::string_view name, std::span<float> out) const;
  /// Reads a box of a parameter. Keeps at most one source in memory beside `out`.
  void read(std::string_view name, const box& part, std::span<float> out) const;

 private:
  friend hub_model read_hub_model(const std::filesystem::path& dir);
  struct tensor_source {
    const std::filesystem::path* file;
    std::string_view type;
    shape extents;
    std::span<const std::byte> bytes;
    /// Elements from `first` on, row-major; empty for a type that floats do not represent.
    std::function<void(std::int64_t first, std::span<float> out)> read;
  };
  void open(const std::filesystem::path& dir);
  void place_gguf(const std::filesystem::path& dir);
  void check_size(const std::filesystem::path& dir) const;
  void check_sources(const std::filesystem::path& dir) const;
  void check_unread(const std::filesystem::path& dir) const;
  void check_copy(const std::string& name, const std::string& original) const;
  const hub_recipe& recipe(std::string_view name) const;
  void read_rows(const hub_recipe& of, const hub_rows& rows, std::span<float> out) const;

  const hub_translation& translation() const;

  model_description config_;
  std::vector<hub_recipe> recipes_;
  std::vector<std::unique_ptr<safetensors_file>> files_;
  std::unique_ptr<gguf_file> gguf_;                            // in place of files_
  std::map<std::string, tensor_source, std::less<>> sources_;  // by name of the Hub
};

/// True if `dir` is a Hugging Face model folder: it has a config.json and no Troupe checkpoint.
bool is_hub_folder(const std::filesystem::path& dir);

/// Reads the config.json of a Hugging Face model folder. Throws input_error.
std::string read_hub_config(const std::filesystem::path& dir);

/// Opens `dir`: config.json with model.safetensors, or with model.safetensors.index.json and the
/// files it lists, or with model.gguf. Throws input_error with the name of a tensor that is missing
/// or has other extents.
hub_model read_hub_model(const std::filesystem::path& dir);

/// The first check of save_hub_model, for callers that write their own files before it, under the
/// lock. Throws input_error if `dir` has checkpoints.
void require_no_checkpoints(const std::filesystem::path& dir);

/// Saves the parameters as checkpoint of iteration 0 in `dir`, without moments. Returns its folder.
/// Those that the files lack have the initial_parameters of the default seed.
/// `lock` locks `dir`. `identity` is a JSON object. `advance` receives the number of parameters
/// written so far. One file is in memory at a time. It has at most `elements_of_file` elements, or
/// one matrix. Throws input_error if `dir` has checkpoints. Throws io_error.
std::filesystem::path save_hub_model(const hub_model& model,
                                     const std::filesystem::path& dir,
                                     const directory_lock& lock,
                                     const std::string& identity,
                                     const std::function<void(std::uint64_t)>& advance = {},
                                     std::int64_t elements_of_file = 500'000'000);

}  // namespace troupe::runtime
