// A byte-level BPE vocabulary and its two files, vocab.json and merges.txt, as GPT-2, Megatron-LM
// and Hugging Face use them. docs/formats/tokenizer.md describes their content.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Merges two neighbouring tokens into one. Its rank is its index in bpe_vocabulary::merges; lower
/// ranks are applied first.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;

  friend bool operator==(const bpe_merge&, const bpe_merge&) = default;
};

struct bpe_vocabulary {
  std::vector<std::string> tokens;              ///< by id, in characters of byte_alphabet.hpp
  std::vector<bpe_merge> merges;                ///< by rank, without duplicate pairs
  std::array<std::int32_t, 256> byte_ids = {};  ///< by byte: id of its one-byte token
  std::int32_t end_of_document = 0;             ///< id of end_of_document_text

  friend bool operator==(const bpe_vocabulary&, const bpe_vocabulary&) = default;
};

inline constexpr const char* end_of_document_text = "<|endoftext|>";

/// Throws input_error with the file, the token or line, and the cause:
/// - a file is missing, empty or not JSON;
/// - the ids are not 0 ... n - 1, each once;
/// - a byte or "<|endoftext|>" has no token;
/// - a merge is repeated, is not two tokens, or its parts or result are not in the vocabulary.
bpe_vocabulary load_bpe_vocabulary(const std::filesystem::path& vocab_file,
                                   const std::filesystem::path& merge_file);

/// Writes folder/vocab.json and folder/merges.txt durably and creates the folder. Equal
/// vocabularies give equal bytes. Throws io_error.
void save_bpe_vocabulary(const bpe_vocabulary& vocabulary, const std::filesystem::path& folder);

}  // namespace troupe::runtime
