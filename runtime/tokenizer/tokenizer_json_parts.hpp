// Readers for the parts of a tokenizer.json. Each function throws input_error with the part and the
// error or unsupported feature.

#pragma once

#include "runtime/tokenizer/json_part.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

namespace troupe::runtime {

/// Upper bound of ids, because each takes memory.
inline constexpr std::uint64_t most_token_ids = 1 << 28;

/// Maximum json_depth of a file; above that of any real file.
inline constexpr int deepest_json = 64;

void add_normalizer(const json_part& from, std::vector<normalizer::step>& to);

/// Reads "pre_tokenizer".
void add_rules(const json_part& from, std::vector<word_splitter::rule>& to);

/// Reads "decoder".
void add_decoding(const json_part& from, std::vector<text_decoder::step>& to);

/// Reads "post_processor": the tokens around a single text.
text_frame frame_of(const json_part& from);

/// Reads "model": vocabulary, merges and settings. `on_bytes`: words consist of characters of
/// byte_alphabet.hpp. A BPE that has all of these characters is then byte-level.
void read_model(const json_part& from, bool on_bytes, tokenizer_parts& to);

/// Reads tokens as "added_tokens" has them; call it after read_model.
void read_added(const std::vector<json_part>& from, tokenizer_parts& to);

}  // namespace troupe::runtime
