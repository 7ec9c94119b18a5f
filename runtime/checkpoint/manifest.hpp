// What a checkpoint says of itself: manifest.json, byte by byte in docs/formats/checkpoint.md.

#pragma once

#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/model/gpt/gpt_config.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Of a shard in a file of a checkpoint.
struct stored_elements {
  stored_type type = stored_type::f32;
  std::string xxh3 = {};  ///< XXH3, 128 bits, hex

  friend bool operator==(const stored_elements&, const stored_elements&) = default;
};
using stored_shard = tensor_shard<stored_elements>;

/// One file of a checkpoint.
struct shard_record {
  std::string file;  ///< beside the manifest
  std::uint64_t bytes = 0;
  std::string sha256;  ///< of the whole file
  std::vector<stored_shard> pieces;

  friend bool operator==(const shard_record&, const shard_record&) = default;
};

struct checkpoint_manifest {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  skipped_steps skipped;          ///< of those iterations: steps without an update
  loss_scale scale;               ///< of the next step; unused: fp32 or bf16
  generation_id generation = {};  ///< of the run that wrote it
  gpt_config model;
  std::string identity = "{}";  ///< JSON object, opaque here: whatever changes bits
  std::string layout = "{}";    ///< JSON object, opaque here: the layout that wrote it
  /// Of a run on devices: which algorithm computed which matrix product, docs/formats/products.md.
  std::map<std::string, std::string> products = {};
  std::vector<shard_record> shards;

  friend bool operator==(const checkpoint_manifest&, const checkpoint_manifest&) = default;
};

/// The text of manifest.json. It ends with the SHA-256 of itself.
std::string to_json(const checkpoint_manifest& x);

/// Begins a box in the name that a part has in its file; names of tensors do not have it.
inline constexpr char box_begin = '[';

/// Back, from format version 1 (whole tensors only) or 2. `where` names the file in messages.
/// Throws input_error unless every field is there, of its type and plausible, the pieces of each
/// tensor agree on its type and extents and cover it exactly once, and the text has its own
/// SHA-256.
checkpoint_manifest manifest_from_json(std::string_view text, const std::string& where);

/// Throws input_error unless `name` can only mean a file beside another: no separators, not hidden.
void require_plain_file_name(const std::string& name, const std::string& where);

}  // namespace troupe::runtime
