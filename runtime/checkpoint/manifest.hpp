// The manifest of a checkpoint, manifest.json. docs/formats/checkpoint.md specifies its bytes.

#pragma once

#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/family/model_description.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Type and hash of the elements of a stored shard.
struct stored_elements {
  stored_type type = stored_type::f32;
  std::string xxh3 = {};  ///< XXH3, 128 bits, hex

  friend bool operator==(const stored_elements&, const stored_elements&) = default;
};
using stored_shard = tensor_shard<stored_elements>;

/// One file of a checkpoint.
struct shard_record {
  std::string file;  ///< name of a file beside the manifest
  std::uint64_t bytes = 0;
  std::string sha256;  ///< of the whole file
  std::vector<stored_shard> pieces;

  friend bool operator==(const shard_record&, const shard_record&) = default;
};

struct checkpoint_manifest {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  skipped_steps skipped;          ///< steps among these iterations that made no update
  loss_scale scale;               ///< scale of the next step; unused in fp32 and bf16
  generation_id generation = {};  ///< generation of the run that wrote it
  model_description model;
  std::string identity = "{}";  ///< JSON object, opaque here: everything that changes bits
  std::string layout = "{}";    ///< JSON object, opaque here: the layout of the run that wrote it
  /// For runs on devices: the algorithm of each matrix product, docs/formats/products.md.
  std::map<std::string, std::string> products = {};
  std::vector<shard_record> shards;

  friend bool operator==(const checkpoint_manifest&, const checkpoint_manifest&) = default;
};

/// Returns the text of manifest.json. It ends with its own SHA-256.
std::string to_json(const checkpoint_manifest& x);

/// Separates name and box in the key of a tensor part. Tensor names do not contain it.
inline constexpr char box_begin = '[';

/// Parses a manifest of format version 1 (whole tensors only) or 2. `where` names the file in
/// messages. Throws input_error if:
/// - a field is missing, of the wrong type or implausible;
/// - the pieces of a tensor disagree on type or extents, or do not cover it exactly once;
/// - the SHA-256 does not match.
checkpoint_manifest manifest_from_json(std::string_view text, const std::string& where);

/// Throws input_error unless `name` is a plain file name: no separators, not hidden.
void require_plain_file_name(const std::string& name, const std::string& where);

}  // namespace troupe::runtime
