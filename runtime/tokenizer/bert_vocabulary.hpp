// BERT's vocab.txt: a token on each line, whose number is its id. Devlin et al. 2018,
// arXiv:1810.04805; ids as transformers' BertTokenizer gives them.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <filesystem>

namespace troupe::runtime {

enum class bert_case {
  kept,
  lowered,  ///< and without accents
};

/// "[SEP]" ends a document. Throws input_error where the file has no "[UNK]", "[SEP]", "[PAD]",
/// "[CLS]" and "[MASK]".
tokenizer_parts load_bert_vocabulary(const std::filesystem::path& file, bert_case letters);

inline constexpr const char* bert_end_of_document = "[SEP]";

}  // namespace troupe::runtime
