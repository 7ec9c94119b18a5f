#include "runtime/tokenizer/tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

namespace troupe::runtime {

std::unique_ptr<const tokenizer> make_tokenizer(const tokenizer_choice& choice) {
  if (choice.type == null_tokenizer::type_name)
    return std::make_unique<null_tokenizer>(choice.vocabulary_size);
  if (choice.type == bpe_tokenizer::type_name) {
    if (choice.vocab_file.empty() || choice.merge_file.empty())
      throw input_error(
          "cannot make a GPT2BPETokenizer: {} is not given; name both a vocab.json and a "
          "merges.txt",
          choice.vocab_file.empty() ? "the vocabulary file" : "the merge file");
    return std::make_unique<bpe_tokenizer>(
        load_bpe_vocabulary(choice.vocab_file, choice.merge_file));
  }
  throw input_error(
      "cannot make a tokenizer of type '{}': choose NullTokenizer or GPT2BPETokenizer",
      choice.type);
}

}  // namespace troupe::runtime
