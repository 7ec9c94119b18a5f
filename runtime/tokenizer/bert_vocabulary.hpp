// BERT's vocab.txt: one token per line; the line number, from 0, is the id. Devlin et al. 2018,
// arXiv:1810.04805. Ids equal those of transformers' BertTokenizer.

#pragma once

#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <filesystem>

namespace troupe::runtime {

enum class bert_case {
  kept,
  lowered,  ///< also removes accents
};

/// "[SEP]" ends a document. Throws input_error unless the file has "[UNK]", "[SEP]", "[PAD]",
/// "[CLS]" and "[MASK]".
tokenizer_parts load_bert_vocabulary(const std::filesystem::path& file, bert_case letters);

inline constexpr const char* bert_end_of_document = "[SEP]";

}  // namespace troupe::runtime
