// A model as a folder that Hugging Face's transformers loads: config.json, safetensors files, and
// the tokenizer where it is byte-level BPE. What hub.hpp reads, written: the same recipes
// backwards.

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

/// Rows of one of our tensors that are rows of a tensor in the hub's files.
struct hub_piece {
  std::string parameter;   ///< ours
  shape extents;           ///< of the parameter, without padding rows
  std::int64_t first = 0;  ///< row of the parameter
  std::int64_t at = 0;     ///< row of the hub's tensor; where that is (in, out) its column
  std::int64_t count = 0;
};

/// A tensor of the hub's files, as it is put together from ours.
struct hub_tensor {
  std::string name;
  shape extents;            ///< as stored
  bool transposed = false;  ///< stored (in, out), ours is (out, in)
  std::vector<hub_piece> pieces;
};

/// All tensors of the model in the hub's files, in the order of the model: those of hub_recipes.
/// What `hub_config_json` refuses has none.
std::vector<hub_tensor> hub_tensors(const gpt_config& config);

/// The config.json of the model: of a GPT-2, Llama, Mistral, Qwen 2 or Qwen 3, whichever has its
/// function. `end_of_document` becomes the id of both ends of a text; `type` is that of the files.
/// hub_config reads it back as the same model, dropouts, padding and gain_offset apart. Throws
/// input_error that names every setting for which the hub has no such model.
std::string hub_config_json(const gpt_config& config,
                            std::optional<std::int32_t> end_of_document = {},
                            stored_type type = stored_type::f32);

/// Fills a box of a parameter, row-major.
using hub_source
    = std::function<void(const std::string& parameter, const box& part, std::span<float> to)>;

struct hub_export {
  gpt_config model;
  std::optional<std::int32_t> end_of_document;
  stored_type type = stored_type::f32;           ///< f32, bf16 or f16, rounded to nearest
  std::uint64_t shard_bytes = 5'000'000'000;     ///< at most so much in a file, one tensor at least
  std::filesystem::path vocab_file, merge_file;  ///< of a byte-level BPE, or none
  /// Copied as they are: where they are, and their names there. Of a byte-level BPE those beside
  /// its two files, in place of what write_hub_tokenizer writes.
  std::vector<std::pair<std::filesystem::path, std::string>> tokenizer_files;
  hub_origin origin = {};                      ///< where it describes the model
  std::optional<std::int32_t> added_end = {};  ///< one more id to stop at than the origin's
};

/// vocab.json and merges.txt as they are, and tokenizer.json, the same in the form of the hub's
/// tokenizers library, which transformers reads whatever the model. Throws input_error for files
/// that are no byte-level BPE, and io_error.
void write_hub_tokenizer(const std::filesystem::path& dir, const hub_export& what);

/// Writes the folder: it is there, complete and durable, or not at all. At most one file is held in
/// memory. A gain that is stored less gain_offset is written with it. `advance` is told the bytes
/// written so far. Throws input_error when the hub has no such model or `dir` is there and not
/// empty, and io_error.
void write_hub_model(const std::filesystem::path& dir,
                     const hub_export& what,
                     const hub_source& read,
                     const std::function<void(std::uint64_t)>& advance = {});

/// What write_hub_model will write, in bytes of elements.
std::uint64_t hub_bytes(const hub_export& what);

}  // namespace troupe::runtime
