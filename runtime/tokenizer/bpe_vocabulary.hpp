// A byte-level BPE vocabulary and its two files, vocab.json and merges.txt: the pair that GPT-2,
// Megatron-LM and HuggingFace read. docs/formats/tokenizer.md says what is in them.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Two neighbouring tokens that become one. Of several possible merges that of lowest rank goes
/// first; the rank is the place in bpe_vocabulary::merges.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;

  friend bool operator==(const bpe_merge&, const bpe_merge&) = default;
};

struct bpe_vocabulary {
  std::vector<std::string> tokens;              ///< by id, in the characters of byte_alphabet.hpp
  std::vector<bpe_merge> merges;                ///< by rank; no pair occurs twice
  std::array<std::int32_t, 256> byte_ids = {};  ///< by byte: the id of the token of that one byte
  std::int32_t end_of_document = 0;             ///< the id of end_of_document_text

  friend bool operator==(const bpe_vocabulary&, const bpe_vocabulary&) = default;
};

inline constexpr const char* end_of_document_text = "<|endoftext|>";

/// Throws input_error that names the file, the token or line, and what is wrong with it: missing,
/// empty, not JSON, ids not 0 ... n - 1 each once, no token for some byte, no "<|endoftext|>",
/// a merge that is not two tokens, whose parts or result are no tokens, or that is there twice.
bpe_vocabulary load_bpe_vocabulary(const std::filesystem::path& vocab_file,
                                   const std::filesystem::path& merge_file);

/// Writes folder/vocab.json and folder/merges.txt, durably; makes the folder. Equal vocabularies
/// give equal bytes. Throws io_error.
void save_bpe_vocabulary(const bpe_vocabulary& vocabulary, const std::filesystem::path& folder);

}  // namespace troupe::runtime
