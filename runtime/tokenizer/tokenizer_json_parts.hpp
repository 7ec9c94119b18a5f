// The parts of a tokenizer.json, each read by itself. Each function throws input_error that names
// the part and what of it is wrong or not supported.

#pragma once

#include "runtime/tokenizer/json_part.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

namespace troupe::runtime {

/// Ids are below it: memory is taken for each.
inline constexpr std::uint64_t most_token_ids = 1 << 28;

/// json_depth of a file, at most: enough for any.
inline constexpr int deepest_json = 64;

void add_normalizer(const json_part& from, std::vector<normalizer::step>& to);

/// Of "pre_tokenizer".
void add_rules(const json_part& from, std::vector<word_splitter::rule>& to);

/// Of "decoder".
void add_decoding(const json_part& from, std::vector<text_decoder::step>& to);

/// Of "post_processor": what it puts around a text by itself.
text_frame frame_of(const json_part& from);

/// Of "model": vocabulary, merges and settings. `on_bytes`: words are in characters of
/// byte_alphabet.hpp; a BPE that has all of them is then one on bytes.
void read_model(const json_part& from, bool on_bytes, tokenizer_parts& to);

/// Of "added_tokens", after the model.
void read_added(const json_part& from, tokenizer_parts& to);

}  // namespace troupe::runtime
