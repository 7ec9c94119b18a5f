// Exports a model as a folder that Hugging Face's transformers loads: config.json, safetensors
// files, and the tokenizer if it is byte-level BPE. Uses the recipes of hub.hpp in reverse.

#pragma once

#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/hub_origin.hpp"
#include "runtime/tensor/box.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Consecutive rows of a Troupe tensor that become rows of a Hub tensor.
struct hub_piece {
  std::string parameter;   ///< Troupe's name
  shape extents;           ///< of the parameter, without padding rows
  std::int64_t first = 0;  ///< first row in the parameter
  std::int64_t at = 0;     ///< first row in the Hub tensor (column, if stored as (in, out))
  std::int64_t count = 0;
};

/// A tensor of the Hub's files and its source rows.
struct hub_tensor {
  std::string name;
  shape extents;            ///< as stored
  bool transposed = false;  ///< stored as (in, out); Troupe's is (out, in)
  std::vector<hub_piece> pieces;
  bool stays_f32 = false;  ///< see hub_recipe
};

/// The parts of a model that an export writes.
enum class hub_parts : std::uint8_t { all, body };  ///< body: without heads

/// Returns all Hub tensors in model order, from the family's recipes. Models that `hub_config_json`
/// rejects have none.
std::vector<hub_tensor> hub_tensors(const model_description& model,
                                    hub_parts parts = hub_parts::all);

/// Returns the config.json of a Hub model with the same function. `end_of_document` becomes bos and
/// eos id; `type` is the type in the files. hub_config reads back the same model, except dropouts,
/// padding and the storage of gains. Throws input_error with all settings that no Hub model
/// supports.
std::string hub_config_json(const model_description& model,
                            std::optional<std::int32_t> end_of_document = {},
                            stored_type type = stored_type::f32,
                            hub_parts parts = hub_parts::all);

/// Fills a box of a parameter, row-major.
using hub_source
    = std::function<void(const std::string& parameter, const box& part, std::span<float> to)>;

struct hub_export;

/// Elements of a Hub tensor, with the family's offset of gains.
std::vector<float> assembled(const hub_tensor& x, const hub_export& what, const hub_source& read);

struct hub_export {
  model_description model;
  std::optional<std::int32_t> end_of_document;
  std::optional<std::int32_t> decoder_start = {};  ///< begins a text that answers a given one
  hub_parts parts = hub_parts::all;
  stored_type type = stored_type::f32;           ///< f32, bf16 or f16, rounded to nearest
  std::uint64_t shard_bytes = 5'000'000'000;     ///< maximum size of a file with several tensors
  std::filesystem::path vocab_file, merge_file;  ///< of a byte-level BPE, or empty
  /// Files to copy unchanged: path, and name in the export. For a byte-level BPE, they replace the
  /// files of the same name that write_hub_tokenizer writes.
  std::vector<std::pair<std::filesystem::path, std::string>> tokenizer_files;
  hub_origin origin = {};                      ///< used if it describes the model
  std::optional<std::int32_t> added_end = {};  ///< stop id to add to the origin's
};

/// The tokenizer.json that is equal to a byte-level BPE's two files. Throws as write_hub_tokenizer.
std::string hub_tokenizer_json(const hub_export& what);

/// Copies vocab.json and merges.txt, and writes an equal tokenizer.json, which transformers reads
/// for every model, and a tokenizer_config.json. Throws input_error if the files are not a
/// byte-level BPE. Throws io_error.
void write_hub_tokenizer(const std::filesystem::path& dir, const hub_export& what);

/// Writes the folder atomically and durably. Holds at most one file in memory. Adds the
/// family's offset to gains that are stored without it. `advance` receives the number of bytes
/// written so far. Throws input_error if the Hub has no such model or `dir` exists and is not
/// empty. Throws io_error.
void write_hub_model(const std::filesystem::path& dir,
                     const hub_export& what,
                     const hub_source& read,
                     const std::function<void(std::uint64_t)>& advance = {});

/// Returns the bytes of elements that write_hub_model will write.
std::uint64_t hub_bytes(const hub_export& what);

}  // namespace troupe::runtime
