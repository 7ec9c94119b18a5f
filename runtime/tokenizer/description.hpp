// What a run remembers of its tokenizer: enough to find it again, and to see that it is the same.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// JSON: type, vocabulary_size, fingerprint, the absolute paths of the files that the type has
/// (vocab_file and merge_file, or tokenizer_file), and of a TikTokenizer its pattern and the number
/// of its special_tokens.
std::string describe(const tokenizer_choice& choice, const tokenizer& made);

/// A file of a tokenizer, and the name that a copy of it has.
struct tokenizer_file {
  std::filesystem::path path;
  std::string name;
  bool decides = true;  ///< about ids; else it may change but for the end of a document
};

/// The files that the choice names, and those beside them that say which token ends a document and
/// how chats are written; beside a tokenizer.json also the same tokenizer in other forms.
std::vector<tokenizer_file> tokenizer_files(const tokenizer_choice& choice);

/// Where keep_tokenizer puts files.
std::filesystem::path kept_tokenizer_folder(const std::filesystem::path& run);

/// Copies the tokenizer's files to `folder`/tokenizer, so that a checkpoint can be used elsewhere,
/// and the chat templates that lie beside them. What is there of these, and decides no id, stays,
/// but a tokenizer_config.json or special_tokens_map.json that names another end of a document.
/// Throws input_error when they cannot be read or another tokenizer is kept there, and io_error.
/// `is_known`, where it is given, is asked before that is believed: when checkpoints there were
/// saved with the very tokenizer described, the copy is damaged, and is written again with a
/// warning.
void keep_tokenizer(const std::string& description,
                    const std::filesystem::path& folder,
                    const std::function<bool()>& is_known = {});

/// Whether both descriptions are of one tokenizer, wherever its files are.
bool describe_the_same(const std::string& a, const std::string& b);

/// What was described, with the files in `folder`/tokenizer when they are there, else where the
/// description says they were. Throws input_error when it does not.
tokenizer_choice described_choice(const std::string& description,
                                  const std::filesystem::path& folder);

/// The tokenizer that was described. Throws input_error when its files are gone or have another
/// fingerprint.
std::unique_ptr<const tokenizer> described_tokenizer(const std::string& description,
                                                     const std::filesystem::path& folder);

/// The same, with the files where the description says that they are.
std::unique_ptr<const tokenizer> named_tokenizer(const std::string& description);

/// Throws input_error unless the tokenizer has the described fingerprint.
void require_described(const tokenizer& x, const std::string& description);

}  // namespace troupe::runtime
